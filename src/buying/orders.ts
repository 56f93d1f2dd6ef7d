import { orderRecord } from '../ledger/order-record.ts'
import type { Service } from '../lib/lifecycle.ts'
import { within } from '../lib/wait.ts'
import { MarketError, mayChange, maySee, NodeStopping } from '../listings/market-error.ts'
import { OPERATOR, ownerSeen } from '../schema/caller.ts'
import type { OrderRecord } from '../schema/order.ts'
import type { Page } from '../schema/page.ts'
import type { KeyedRequest } from '../store/idempotency.ts'
import { isFinal } from '../store/order-row.ts'
import type { OpenLimits, PlacementKey } from '../store/orders.ts'
import type { Order } from '../store/purchases.ts'
import { checkBuyable, checkTask } from './guard.ts'
import { keyedRequest, once } from './keyed.ts'
import {
  AWAY_MS,
  canceled,
  type NewOrder,
  type NewWebOrder,
  type OrderList,
  type OrdersDeps,
  pendingOrder,
  type WantedOrder,
} from './order-requests.ts'
import { OrderTurns } from './order-turns.ts'
import { failPlaced, runPlaced, runPlacedOnWeb } from './run-placed.ts'
import { unaskedOrder } from './web/first-request.ts'

/** Orders that are pending or executing: in total, and per token. One token cannot use up all of them. */
const OPEN_ORDERS_MAX: OpenLimits = { all: 10_000, perToken: 1_000 }
/** Placed orders that execute at the same time. More orders wait. */
const RUNNING_MAX = 32
/** Wait before retrying an order that the store could not begin. */
const RETRY_MS = 10_000
/** How long a cancellation waits for the run to stop. The seller's agent may need a few seconds to end. */
const CANCEL_WAIT_MS = 10_000
const STOP_WAIT_MS = 1_000

export type OrdersApi = Pick<Orders, 'create' | 'createOnWeb' | 'execute' | 'cancel' | 'get' | 'list' | 'settled'>

/**
 * Placed orders. Each executes in the background once its task and its agent are known (D18).
 *
 * Orders live in the store. This class only tracks which orders wait for what, and rebuilds that at each start.
 */
export class Orders implements Service {
  readonly name = 'orders'
  readonly #deps: OrdersDeps
  readonly #stopping = new AbortController()
  readonly #ready = new Set<string>()
  /** Orders that wait, by the id of the agent that is not known yet. */
  readonly #waiting = new Map<string, Set<string>>()
  readonly #running = new Map<string, Promise<void>>()
  readonly #turns = new OrderTurns()
  #started = false
  #leave = () => {}
  constructor(deps: OrdersDeps) {
    this.#deps = deps
  }

  /** Takes up pending orders. The recovery starts first and makes orders pending again that a crash interrupted. */
  async start(): Promise<void> {
    this.#leave = this.#deps.replica.onChange(({ id, state }) => {
      if (state === 'active') this.#agentCame(id)
    })
    this.#started = true
    for (const order of await this.#deps.store.pending()) this.enqueue(order.id)
  }

  /** Stops waiting for running orders. The next start takes up unsigned orders; the recovery takes up signed orders. */
  async stop(): Promise<void> {
    this.#leave()
    this.#stopping.abort(new NodeStopping())
    await within(STOP_WAIT_MS, Promise.allSettled(this.#running.values()))
  }

  /**
   * Places an order. An order for an unknown agent waits for its listing.
   *
   * @throws MarketError INPUT_TOO_LARGE, NETWORK_MISMATCH, ORDERS_TOO_MANY; CodedError IDEMPOTENCY_CONFLICT
   */
  async create({ agentId, price, task, channel, caller = OPERATOR, idempotencyKey }: NewOrder): Promise<OrderRecord> {
    if (task !== undefined) checkTask(task)
    const request = keyedRequest(idempotencyKey, caller, ['order', agentId, price, task], this.#deps.keys)
    return this.#placedOnce(request, () => {
      const listing = this.#deps.catalog.resolve(agentId)
      if (listing !== undefined) checkBuyable(listing)
      return { agentId, price, task, channel, tokenId: caller.tokenId }
    })
  }

  /**
   * Places an order at an x402 seller over HTTP. It executes in the background: its seller is asked then, and paid at most
   * the price of the order.
   *
   * @throws MarketError URL_REFUSED, INPUT_TOO_LARGE, ORDERS_TOO_MANY; CodedError IDEMPOTENCY_CONFLICT
   */
  async createOnWeb({ price, caller = OPERATOR, idempotencyKey, ...wish }: NewWebOrder): Promise<OrderRecord> {
    const url = this.#deps.running.web.url(wish.url)
    const unasked = unaskedOrder(url, wish)
    const { task, method, headers, body, expected } = wish
    const asked = ['order at URL', url.href, task, method, headers, body, price, expected]
    const request = keyedRequest(idempotencyKey, caller, asked, this.#deps.keys)
    return this.#placedOnce(request, () => ({ ...unasked, price, tokenId: caller.tokenId }))
  }

  #placedOnce(request: KeyedRequest | undefined, wanted: () => WantedOrder): Promise<OrderRecord> {
    const create = async () => {
      const order = this.compose(wanted())
      await this.place(order, request && { request, kind: 'order' })
      if (order.task !== undefined) this.enqueue(order.id)
      return this.get(order.id)
    }
    return once(request, this.#deps, create, ({ id }) => this.get(id))
  }

  /** Stores an order and the key of its request. @throws MarketError ORDERS_TOO_MANY; KeyTaken */
  async place(order: Order, keyed?: PlacementKey): Promise<void> {
    const outcome = await this.#deps.store.place(order, OPEN_ORDERS_MAX, keyed)
    if (outcome === 'placed') return
    const { all, perToken } = OPEN_ORDERS_MAX
    const many = outcome === 'full' ? `${all} orders` : `${perToken} orders of this token`
    throw new MarketError('ORDERS_TOO_MANY', `${many} are open: cancel some, or wait until they end`)
  }

  /**
   * Gives a waiting order its task. The order executes in the background and its owner pays (D48).
   *
   * @throws MarketError; CodedError IDEMPOTENCY_CONFLICT
   */
  async execute(id: string, task: string, caller = OPERATOR, idempotencyKey?: string): Promise<OrderRecord> {
    checkTask(task)
    const { store, clock, keys } = this.#deps
    mayChange(caller, (await this.#known(id, caller)).tokenId, 'order')
    const request = keyedRequest(idempotencyKey, caller, ['execute order', id, task], keys)
    const execute = async () => {
      const keyed: PlacementKey | undefined = request && { request, kind: 'order' }
      const given = { tokenId: caller.tokenId, now: clock.now(), keyed }
      if ((await store.giveTask(id, task, given)) === undefined) {
        const { status } = await this.#known(id)
        const what = isFinal(status) ? `is ${status}` : 'has its task already'
        throw new MarketError(isFinal(status) ? 'ORDER_FINAL' : 'ORDER_NOT_WAITING', `order ${id} ${what}`)
      }
      this.enqueue(id)
      return this.get(id)
    }
    return once(request, this.#deps, execute, () => this.get(id))
  }

  /**
   * Cancels an order. A running order is also aborted at its seller, which then charges nothing. If the seller was paid
   * anyway, the result is kept and the order is completed.
   *
   * @returns the current order; it is still executing if the seller has not said what became of it
   * @throws MarketError UNKNOWN_ORDER, ORDER_FINAL, SCOPE_TOO_LOW
   */
  async cancel(id: string, caller = OPERATOR): Promise<OrderRecord> {
    const { clock, store, active, changes, recovery, logger } = this.#deps
    const { status, tokenId } = await this.#known(id, caller)
    mayChange(caller, tokenId, 'order')
    if (isFinal(status)) throw new MarketError('ORDER_FINAL', `order ${id} is ${status}`)
    const order = await store.cancel(id, clock.now())
    if (order?.status === 'executing') {
      active.get(id)?.(canceled(id))
      const isElsewhere = (await store.workerOf(id)) === 'elsewhere'
      const hasStopped = async () => (isElsewhere ? !(await this.#isOpen(id)) : !active.has(id))
      const stopped = changes.until(id, hasStopped, { limitMs: CANCEL_WAIT_MS })
      const found = stopped.then(async () => ((await this.#isOpen(id)) ? recovery.look(id) : undefined))
      await within(CANCEL_WAIT_MS, found).catch((error: unknown) => {
        const ids = { order_id: id, correlation_id: order.correlationId }
        logger.warn({ ...ids, err: error }, 'the outcome of a canceled order is not known yet')
      })
    } else {
      this.forget(id, order?.agentId)
      // A turn that read the order before may add it to the waiting orders now.
      void this.#running.get(id)?.then(() => this.forget(id, order?.agentId))
      changes.tell(id)
    }
    return this.get(id)
  }

  /** @throws MarketError UNKNOWN_ORDER */
  async get(id: string, caller = OPERATOR): Promise<OrderRecord> {
    return this.#recordOf(await this.#known(id, caller))
  }

  /** Lists the orders that the caller may see, newest first. */
  async list(query: OrderList, caller = OPERATOR): Promise<Page<OrderRecord>> {
    const { items, next } = await this.#deps.store.list({ ...query, ownerId: ownerSeen(caller) })
    return { items: await Promise.all(items.map((order) => this.#recordOf(order))), next }
  }

  /** Returns the order when it has ended, or its current state after `limitMs`. @throws MarketError UNKNOWN_ORDER */
  async settled(
    id: string,
    options: { limitMs: number; signal?: AbortSignal },
    caller = OPERATOR,
  ): Promise<OrderRecord> {
    await this.#known(id, caller)
    await this.#deps.changes.until(id, async () => !(await this.#isOpen(id)), options)
    return this.get(id)
  }

  /** Builds a pending order without storing it. */
  compose(wanted: WantedOrder, step?: { workflowId: string; stepId: string }): Order {
    const { clock, newId } = this.#deps
    return { ...pendingOrder(newId(), wanted, clock.now()), ...step }
  }

  /** Executes a stored, pending order once there is room and its agent is known. */
  enqueue(id: string): void {
    this.#ready.add(id)
    this.#fill()
  }

  #fill(): void {
    for (const id of this.#ready) {
      if (!this.#started || this.#stopping.signal.aborted || this.#running.size >= RUNNING_MAX) return
      // The order is running. `#fill` looks at it again when that run ends.
      if (this.#running.has(id)) continue
      this.#ready.delete(id)
      const run = this.#run(id)
        .catch((error: unknown) => this.#retryLater(id, error))
        .finally(() => {
          this.#running.delete(id)
          this.#fill()
        })
      this.#running.set(id, run)
    }
  }

  async #run(id: string): Promise<void> {
    const { purchases, catalog } = this.#deps
    const order = await purchases.order(id)
    if (order === undefined) return
    const place = this.#turns.enter(order)
    if (place === undefined) return
    using _place = place
    try {
      if (order.status !== 'pending' || order.task === undefined) return
      const { signal } = this.#stopping
      const { task, web } = order
      if (web !== undefined) return await runPlacedOnWeb({ ...order, task, web }, this.#deps, signal)
      const listing = catalog.resolve(order.agentId)
      if (listing === undefined) return await this.#agentIsMissing(order)
      await runPlaced({ ...order, task }, listing, this.#deps, signal)
    } finally {
      const next = this.#turns.next(order.tokenId)
      if (next !== undefined) this.enqueue(next)
    }
  }

  /** Waits for the agent's listing. A workflow step fails at once instead, because it may have a fallback agent. */
  async #agentIsMissing(order: Order): Promise<void> {
    const { id, agentId, workflowId } = order
    if (this.#deps.isAway(agentId)) return void setTimeout(() => this.enqueue(id), AWAY_MS).unref()
    if (workflowId !== undefined) {
      const message = `agent ${agentId} is not on the market now`
      return failPlaced(id, { code: 'UNKNOWN_AGENT', message, retryable: true }, this.#deps)
    }
    const waiting = this.#waiting.get(agentId) ?? new Set()
    this.#waiting.set(agentId, waiting.add(id))
  }

  #agentCame(agentId: string): void {
    const orders = this.#waiting.get(agentId)
    if (orders === undefined) return
    this.#waiting.delete(agentId)
    for (const id of orders) this.enqueue(id)
  }

  #retryLater(id: string, error: unknown): void {
    this.#deps.logger.error({ err: error, order_id: id }, 'an order could not be started; the node tries again in 10 s')
    setTimeout(() => this.enqueue(id), RETRY_MS).unref()
  }

  /** Waits for nothing any more: the order has ended. */
  forget(id: string, agentId: string | undefined): void {
    this.#ready.delete(id)
    if (agentId === undefined) return
    const waiting = this.#waiting.get(agentId)
    if (waiting?.delete(id) === true && waiting.size === 0) this.#waiting.delete(agentId)
  }

  async #isOpen(id: string): Promise<boolean> {
    const order = await this.#deps.purchases.order(id)
    return order !== undefined && !isFinal(order.status)
  }

  async #recordOf(order: Order): Promise<OrderRecord> {
    const { purchases, catalog } = this.#deps
    return orderRecord(order, await purchases.reservationOf(order.id), catalog.resolve(order.agentId))
  }

  async #known(id: string, caller = OPERATOR): Promise<Order> {
    const order = await this.#deps.purchases.order(id)
    if (order !== undefined && maySee(caller, order.tokenId)) return order
    throw new MarketError('UNKNOWN_ORDER', `no order ${id} is known here: see GET /orders or stoa order list`)
  }
}
