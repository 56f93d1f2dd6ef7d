import type { Changes } from '../../lib/changes.ts'
import type { Clock } from '../../lib/clock.ts'
import { Lanes } from '../../lib/lane.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Logger } from '../../lib/logger.ts'
import { within } from '../../lib/wait.ts'
import { MarketError, mayChange, maySee } from '../../listings/market-error.ts'
import type { PaymentChain } from '../../payments/chain-verdict.ts'
import { type Caller, OPERATOR, ownerSeen } from '../../schema/caller.ts'
import type { Page } from '../../schema/page.ts'
import type { WorkflowDefinition, WorkflowQuote, WorkflowRecord } from '../../schema/workflow.ts'
import type { IdempotencyKeys, KeyedRequest } from '../../store/idempotency.ts'
import { isFinal } from '../../store/order-row.ts'
import type { OpenLimits } from '../../store/orders.ts'
import type { Purchases } from '../../store/purchases.ts'
import type { StoredWorkflow } from '../../store/workflow-row.ts'
import type { SeenWorkflow, WorkflowStore, WorkflowsQuery } from '../../store/workflows.ts'
import { checkTask } from '../guard.ts'
import { keyedRequest, once } from '../keyed.ts'
import type { Orders } from '../orders.ts'
import { Advance, type AdvanceDeps } from './advance.ts'
import { isFinalWorkflow } from './progress.ts'
import { costOf, type PriceDeps, priceSteps, quoteOf } from './quote.ts'
import { briefWorkflow, workflowRecord } from './record.ts'

/** Open workflows: in total, and per token. */
const OPEN_MAX: OpenLimits = { all: 1_000, perToken: 100 }
const STOP_WAIT_MS = 1_000
/** Wait before retrying after the store could not be written. */
const STORE_RETRY_MS = 10_000
const unbegun = {
  status: 'pending',
  agent: 0,
  tries: 0,
  orderId: undefined,
  error: undefined,
  refusedAt: undefined,
  startedAt: undefined,
  endedAt: undefined,
} as const

export type WorkflowsApi = Pick<Workflows, 'create' | 'quote' | 'cancel' | 'get' | 'list' | 'settled'>

type WorkflowsDeps = PriceDeps &
  Pick<AdvanceDeps, 'isAway'> & {
    clock: Clock
    logger: Logger
    newId(): string
    store: WorkflowStore
    purchases: Purchases
    /** Undefined: no RPC is configured. */
    chain?: PaymentChain | undefined
    keys: Pick<IdempotencyKeys, 'find' | 'now'>
    orders: Pick<Orders, 'compose' | 'enqueue' | 'cancel'>
    /** Reports each order, and each payment of an order, that has ended. */
    orderChanges: Changes
    changes: Changes
  }

/**
 * Workflows (D20). Each step is an order and begins when its dependencies are completed.
 *
 * All state is in the store. Each event (an order ends, a retry is due, a cancel, a start) reads the workflow and
 * advances it as far as possible. A crash between any two writes loses nothing and pays nothing twice.
 */
export class Workflows implements Service {
  readonly name = 'workflows'
  readonly #deps: WorkflowsDeps
  readonly #advance: Advance
  /** Two turns of a workflow at once would both begin the next step. */
  readonly #turns = new Lanes()
  /** The workflow that each watched order belongs to, by order id. */
  readonly #owners = new Map<string, string>()
  /** Workflows of an earlier process whose orders are not watched yet. */
  readonly #unwatched = new Set<string>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #stopped = false
  #leave = () => {}
  #ignore = () => {}

  constructor(deps: WorkflowsDeps) {
    this.#deps = deps
    const own: AdvanceDeps = {
      ...deps,
      watch: (orderId, workflowId) => this.#owners.set(orderId, workflowId),
      later: (workflowId, inMs) => this.#later(workflowId, inMs),
    }
    this.#advance = new Advance(own)
  }

  async start(): Promise<void> {
    this.#leave = this.#deps.orderChanges.listen((orderId) => {
      const workflowId = this.#owners.get(orderId)
      if (workflowId !== undefined) void this.#turn(workflowId)
    })
    this.#ignore = this.#deps.changes.listen((id, origin) => {
      if (origin === 'elsewhere') void this.#goOn(id)
    })
    await this.takeOver()
  }

  /** Advances a workflow of this process that another one has changed, such as canceled. */
  async #goOn(id: string): Promise<void> {
    const { store, logger } = this.#deps
    try {
      if ((await store.unfinished()).includes(id)) await this.#turn(id)
    } catch (error) {
      logger.error({ err: error, workflow_id: id }, 'a workflow that changed elsewhere could not be read')
    }
  }

  /** Goes on with the workflows of processes that have ended. */
  async takeOver(): Promise<void> {
    await this.#deps.store.takeOver(this.#deps.clock.now())
    for (const id of await this.#deps.store.unfinished()) {
      this.#unwatched.add(id)
      void this.#turn(id)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#leave()
    this.#ignore()
    for (const timer of this.#timers.values()) clearTimeout(timer)
    await within(STOP_WAIT_MS, this.#turns.ended())
  }

  /** Returns what a workflow would cost. @throws MarketError WORKFLOW_INVALID */
  quote(definition: WorkflowDefinition): WorkflowQuote {
    return quoteOf(definition, this.#deps)
  }

  /**
   * Stores a workflow and begins it.
   *
   * @throws MarketError WORKFLOW_INVALID, INPUT_TOO_LARGE, WORKFLOWS_TOO_MANY, CodedError IDEMPOTENCY_CONFLICT; in
   * these cases nothing was stored or paid
   */
  async create(
    definition: WorkflowDefinition,
    caller: Caller = OPERATOR,
    idempotencyKey?: string,
  ): Promise<WorkflowRecord> {
    const request = keyedRequest(idempotencyKey, caller, ['workflow', definition], this.#deps.keys)
    const create = () => this.#create(definition, caller, request)
    return once(request, this.#deps, create, ({ id }) => this.get(id))
  }

  async #create(
    definition: WorkflowDefinition,
    { tokenId }: Caller,
    request: KeyedRequest | undefined,
  ): Promise<WorkflowRecord> {
    const { store, clock, newId } = this.#deps
    checkTask(definition.input)
    const steps = priceSteps(definition, this.#deps)
    const now = clock.now()
    const { name, input, budget } = definition
    const workflow: StoredWorkflow = {
      id: newId(),
      name,
      input,
      budget,
      status: 'pending',
      createdAt: now,
      updatedAt: now,
      tokenId,
      revision: 0,
      steps: steps.map(({ listings, ...plan }) => ({ ...plan, price: costOf(listings[0]!), ...unbegun })),
    }
    const outcome = await store.create(workflow, OPEN_MAX, request)
    if (outcome !== 'placed') {
      const many = outcome === 'full' ? `${OPEN_MAX.all} workflows` : `${OPEN_MAX.perToken} workflows of this token`
      throw new MarketError('WORKFLOWS_TOO_MANY', `${many} are open: cancel some, or wait until they end`)
    }
    void this.#turn(workflow.id)
    return this.get(workflow.id)
  }

  /**
   * Cancels a workflow. No new step begins, and running steps are aborted at their sellers too. If a seller was paid
   * anyway, the result is kept with its step, even after this method has returned.
   *
   * @throws MarketError UNKNOWN_WORKFLOW, WORKFLOW_FINAL
   */
  async cancel(id: string, caller = OPERATOR): Promise<WorkflowRecord> {
    mayChange(caller, (await this.#known(id, caller)).workflow.tokenId, 'workflow')
    const running = await this.#turns.run(id, () => this.#advance.cancel(id))
    const { logger } = this.#deps
    await Promise.all(
      running.map((orderId) =>
        this.#cancelOrder(orderId).catch((error: unknown) => {
          logger.debug({ err: error, order_id: orderId, workflow_id: id }, 'an order ended before it was canceled')
        }),
      ),
    )
    await this.#turn(id)
    return this.get(id)
  }

  async #cancelOrder(id: string): Promise<void> {
    const { orders, purchases } = this.#deps
    const order = await purchases.order(id)
    if (order !== undefined && !isFinal(order.status)) await orders.cancel(id)
  }

  /** @throws MarketError UNKNOWN_WORKFLOW */
  async get(id: string, caller = OPERATOR): Promise<WorkflowRecord> {
    return workflowRecord(await this.#known(id, caller), this.#deps.purchases)
  }

  /** Lists the workflows that the caller may see, newest first, without inputs and outputs. */
  async list(query: Omit<WorkflowsQuery, 'ownerId'>, caller = OPERATOR): Promise<Page<WorkflowRecord>> {
    const { items, next } = await this.#deps.store.list({ ...query, ownerId: ownerSeen(caller) })
    return { items: items.map(briefWorkflow), next }
  }

  /**
   * Returns the workflow when it has ended, or its current state after `limitMs`. @throws MarketError UNKNOWN_WORKFLOW
   */
  async settled(
    id: string,
    options: { limitMs: number; signal?: AbortSignal },
    caller = OPERATOR,
  ): Promise<WorkflowRecord> {
    await this.#known(id, caller)
    const { store, changes } = this.#deps
    const hasEnded = async () => {
      const workflow = await store.get(id)
      return workflow === undefined || isFinalWorkflow(workflow.status)
    }
    await changes.until(id, hasEnded, options)
    return this.get(id)
  }

  /** Advances a workflow as far as it can go. */
  #turn(id: string): Promise<void> {
    const { logger, changes } = this.#deps
    return this.#turns
      .run(id, async () => {
        if (this.#stopped) return
        if (this.#unwatched.has(id)) await this.#watchOrders(id)
        if (await this.#advance.run(id)) await this.#forgetOrders(id)
        changes.tell(id)
      })
      .catch((error: unknown) => {
        logger.error({ err: error, workflow_id: id }, 'a workflow could not be advanced; the node tries again in 10 s')
        this.#later(id, STORE_RETRY_MS)
      })
  }

  #later(id: string, inMs: number): void {
    clearTimeout(this.#timers.get(id))
    if (this.#stopped) return
    const timer = setTimeout(() => {
      this.#timers.delete(id)
      void this.#turn(id)
    }, inMs).unref()
    this.#timers.set(id, timer)
  }

  async #watchOrders(id: string): Promise<void> {
    for (const orderId of await this.#deps.store.orders(id)) this.#owners.set(orderId, id)
    this.#unwatched.delete(id)
  }

  async #forgetOrders(id: string): Promise<void> {
    for (const orderId of await this.#deps.store.orders(id)) this.#owners.delete(orderId)
  }

  async #known(id: string, caller = OPERATOR): Promise<SeenWorkflow> {
    const seen = await this.#deps.store.see(id)
    if (seen !== undefined && maySee(caller, seen.workflow.tokenId)) return seen
    throw new MarketError(
      'UNKNOWN_WORKFLOW',
      `no workflow ${id} is known here: see GET /workflows or stoa workflow list`,
    )
  }
}
