import { randomUUID } from 'node:crypto'
import { pendingOrder } from '../../src/buying/order-requests.ts'
import { sellerUrl } from '../../src/buying/web/seller-url.ts'
import { Workflows } from '../../src/buying/workflow/workflows.ts'
import { orderRecord } from '../../src/ledger/order-record.ts'
import { Changes } from '../../src/lib/changes.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { PaymentChain } from '../../src/payments/chain-verdict.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { CreateWorkflow, type CreateWorkflowBody } from '../../src/schema/workflow.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createIdempotencyKeys } from '../../src/store/idempotency.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { createPurchases, type Order, type OrderError, type Reservation } from '../../src/store/purchases.ts'
import { createWorkflowStore } from '../../src/store/workflows.ts'
import { listingFixture } from './fake-api.ts'
import { HandClock } from './hand-clock.ts'
import { requirements, signed } from './payments.ts'
import { freshRunTime } from './run-time.ts'

/** How an order ends. The test decides. */
export type End =
  | { kind: 'completed'; output?: string; paid?: boolean }
  | { kind: 'failed'; error: Partial<OrderError>; signed?: 'reserved' | 'released' | 'spent'; settlesFirst?: boolean }

/**
 * Workflows over a real store. The test decides when and how their orders end. A second bench on the same database acts
 * as the same node after a crash.
 */
export class WorkflowBench {
  readonly clock: HandClock
  readonly database: Database
  readonly purchases
  readonly store
  readonly workflows: Workflows
  /** Listings on the market, by agent id. */
  readonly market = new Map<string, Listing>()
  readonly #changes = new Changes()
  readonly #orderStore

  constructor(
    options: {
      database?: Database
      clock?: HandClock
      market?: Map<string, Listing>
      maxPrice?: bigint
      chain?: PaymentChain
    } = {},
  ) {
    this.clock = options.clock ?? new HandClock()
    this.database = options.database ?? openDatabase({ path: ':memory:' })
    this.market = options.market ?? this.market
    this.purchases = createPurchases(this.database)
    this.#orderStore = createOrderStore(this.database)
    this.store = createWorkflowStore(this.database)
    const { clock, purchases, store, market } = this
    this.workflows = new Workflows({
      clock,
      logger: silentLogger,
      newId: randomUUID,
      store,
      purchases,
      keys: createIdempotencyKeys(this.database, freshRunTime(this.clock)),
      chain: options.chain,
      orders: {
        compose: (wanted, step) => ({ ...pendingOrder(randomUUID(), wanted, clock.now()), ...step }),
        enqueue: () => {},
        cancel: async (id) => {
          await this.#orderStore.cancel(id, clock.now())
          this.#changes.tell(id)
          return orderRecord((await purchases.order(id))!, await purchases.reservationOf(id))
        },
      },
      isAway: () => false,
      orderChanges: this.#changes,
      changes: new Changes(),
      web: { url: (text) => sellerUrl(text, []) },
      resolve: (id) => market.get(id),
      maxPrice: () => options.maxPrice ?? 1_000_000n,
    })
  }

  /** Puts an agent on the market at a price in atomic units. */
  list(id: string, price = 10_000n, more: Partial<Listing> = {}): void {
    this.market.set(id, listingFixture({ id, name: id, price, price_atomic: `${price}`, ...more }))
  }

  create(body: Omit<CreateWorkflowBody, 'input'> & { input?: string }) {
    return this.workflows.create(CreateWorkflow.decode({ input: 'in', ...body }))
  }

  /** Orders that have not ended, oldest first. */
  async open(): Promise<Order[]> {
    const rows = this.database
      .prepare(`SELECT id FROM orders WHERE status IN ('pending', 'executing') ORDER BY no`)
      .all()
    return Promise.all((rows as { id: string }[]).map(async ({ id }) => (await this.purchases.order(id))!))
  }

  /** The open order of a step. */
  async openFor(stepId: string): Promise<Order> {
    const order = (await this.open()).find((one) => one.stepId === stepId)
    if (order === undefined) throw new Error(`step ${stepId} has no open order`)
    return order
  }

  /** Executes the order and signs its payment if the end needs them, then ends the order. */
  async end(order: Order, end: End): Promise<void> {
    const { clock, purchases } = this
    const begun: Order = { ...order, status: 'executing', correlationId: randomUUID(), sellerId: 'seller' }
    await this.#orderStore.begin(order.id, {
      sellerId: 'seller',
      correlationId: begun.correlationId!,
      now: clock.now(),
    })
    const isSigned = end.kind === 'completed' ? end.paid !== false && order.price > 0n : end.signed !== undefined
    const reservation = isSigned
      ? await this.sign(begun, end.kind === 'failed' && end.settlesFirst === true)
      : undefined
    const updatedAt = clock.now()
    if (end.kind === 'completed') {
      const paid = reservation && { paymentId: reservation.paymentId, amount: reservation.amount, txHash: undefined }
      await purchases.finish(
        { ...begun, status: 'completed', output: end.output ?? `did ${order.task}`, updatedAt },
        paid,
      )
    } else {
      const error = { code: 'AGENT_FAILED', message: 'no', retryable: false, ...end.error }
      await purchases.finish({ ...begun, status: 'failed', error, updatedAt })
      if (reservation !== undefined && end.signed !== undefined && end.signed !== 'reserved') {
        await purchases.resolve(reservation, end.signed, undefined, updatedAt)
      }
    }
    this.#changes.tell(order.id)
  }

  /** Processes every workflow, as a timer would, and waits until no more work follows. */
  async wake(): Promise<void> {
    const rows = this.database.prepare('SELECT id FROM orders').all() as { id: string }[]
    for (const { id } of rows) this.#changes.tell(id)
    // Each write takes one turn of the event loop, and a step takes a few.
    for (let turn = 0; turn < 40; turn++) await new Promise((resolve) => setImmediate(resolve))
  }

  async sign(order: Order, settlesFirst = false): Promise<Reservation> {
    const asked = requirements({ amount: order.price })
    const { paymentId, envelope } = signed(this.clock.now(), { requirements: asked })
    const reservation: Reservation = {
      paymentId,
      orderId: order.id,
      agentId: order.agentId,
      sellerId: 'seller',
      requirements: asked,
      envelope,
      amount: order.price,
      validBeforeSeconds: Number(envelope.payload!.authorization.validBefore),
      settlesFirst,
    }
    const outcome = await this.purchases.reserve(order, reservation, { day: '2026-01-01', limits: () => ({}) })
    if (outcome !== 'reserved') throw new Error(`could not sign for ${order.id}: ${outcome}`)
    return reservation
  }

  /** Marks the signed payment of an order as never to be settled, or as settled. */
  async resolve(orderId: string, state: 'released' | 'spent'): Promise<void> {
    await this.purchases.resolve({ orderId }, state, undefined, this.clock.now())
    this.#changes.tell(orderId)
  }
}
