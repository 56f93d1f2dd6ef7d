import type { Changes } from '../../lib/changes.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Logger } from '../../lib/logger.ts'
import { within } from '../../lib/within.ts'
import { MarketError, mayChange, maySee } from '../../listings/market-error.ts'
import type { PaymentChain } from '../../payments/chain-verdict.ts'
import { type Caller, OPERATOR, ownerSeen } from '../../schema/caller.ts'
import type { Page } from '../../schema/page.ts'
import type { WorkflowDefinition, WorkflowQuote, WorkflowRecord } from '../../schema/workflow.ts'
import type { IdempotencyKeys, KeyedRequest } from '../../store/idempotency.ts'
import { isFinal } from '../../store/order-row.ts'
import type { OpenLimits } from '../../store/orders.ts'
import type { Purchases } from '../../store/purchases.ts'
import type { StoredWorkflow, WorkflowStore, WorkflowsQuery } from '../../store/workflows.ts'
import { checkTask } from '../execute.ts'
import { keyedRequest, once } from '../keyed.ts'
import type { Orders } from '../orders.ts'
import { Advance, type AdvanceDeps } from './advance.ts'
import { isFinalWorkflow } from './progress.ts'
import { costOf, priceSteps, type QuoteDeps, quoteOf } from './quote.ts'
import { briefWorkflow, workflowRecord } from './record.ts'

/** Workflows that are open at once: in all, and of one token. */
const OPEN_MAX: OpenLimits = { all: 1_000, perToken: 100 }
const STOP_WAIT_MS = 1_000
/** After the store could not be written. */
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

/** What others may do with workflows. */
export type WorkflowsApi = Pick<Workflows, 'create' | 'quote' | 'cancel' | 'get' | 'list' | 'settled'>

export type WorkflowsDeps = QuoteDeps & {
  clock: Clock
  logger: Logger
  newId(): string
  store: WorkflowStore
  purchases: Purchases
  /** Undefined: no RPC is configured. */
  chain?: PaymentChain | undefined
  keys: Pick<IdempotencyKeys, 'find' | 'now'>
  orders: Pick<Orders, 'compose' | 'enqueue' | 'cancel'>
  /** Tells of each order that has ended, and of what was signed for it. */
  orderChanges: Changes
  /** Told of each workflow that has moved. */
  changes: Changes
}

/**
 * Workflows (D20): steps that are orders, each begun when what it depends on is completed.
 *
 * Nothing is kept here that is not in the store. Whatever happens, an order's end, a retry's time, a cancel, a start, the
 * workflow is read and taken as far as it can go; so a crash between any two writes loses nothing and pays nothing twice.
 */
export class Workflows implements Service {
  readonly name = 'workflows'
  readonly #deps: WorkflowsDeps
  readonly #advance: Advance
  /** Workflows that are being taken further, each one turn after the other. */
  readonly #turns = new Map<string, Promise<void>>()
  /** Which workflow to look at when an order has changed. */
  readonly #owners = new Map<string, string>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #stopped = false
  #leave = () => {}

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
    for (const id of this.#deps.store.unfinished()) {
      this.#watchOrders(id)
      void this.#turn(id)
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#leave()
    for (const timer of this.#timers.values()) clearTimeout(timer)
    await within(STOP_WAIT_MS, Promise.allSettled(this.#turns.values()))
  }

  /** Says what a workflow would cost. @throws MarketError WORKFLOW_INVALID */
  quote(definition: WorkflowDefinition): WorkflowQuote {
    return quoteOf(definition, this.#deps)
  }

  /**
   * Stores a workflow and begins it.
   *
   * @throws MarketError WORKFLOW_INVALID, INPUT_TOO_LARGE, WORKFLOWS_TOO_MANY, CodedError IDEMPOTENCY_CONFLICT; then nothing was
   *   stored or paid
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
   * Calls a workflow off: nothing more begins, what runs is aborted at its sellers too. What turns out to be paid for is
   * kept with its step, even after this has answered.
   *
   * @throws MarketError UNKNOWN_WORKFLOW, WORKFLOW_FINAL
   */
  async cancel(id: string, caller = OPERATOR): Promise<WorkflowRecord> {
    mayChange(caller, this.#known(id, caller).tokenId, 'workflow')
    const running = await this.#exclusive(id, () => this.#advance.cancel(id))
    const { orders, purchases, logger } = this.#deps
    const open = running.filter((orderId) => {
      const order = purchases.order(orderId)
      return order !== undefined && !isFinal(order.status)
    })
    await Promise.all(
      open.map((orderId) =>
        orders.cancel(orderId).catch((error: unknown) => {
          logger.debug({ err: error, order_id: orderId, workflow_id: id }, 'an order ended before it was cancelled')
        }),
      ),
    )
    await this.#turn(id)
    return this.get(id)
  }

  /** @throws MarketError UNKNOWN_WORKFLOW */
  get(id: string, caller = OPERATOR): WorkflowRecord {
    return workflowRecord(this.#known(id, caller), this.#sources(id))
  }

  /** Those that the caller may see, newest first, without inputs and outputs. */
  list(query: Omit<WorkflowsQuery, 'ownerId'>, caller = OPERATOR): Page<WorkflowRecord> {
    const { items, next } = this.#deps.store.list({ ...query, ownerId: ownerSeen(caller) })
    return { items: items.map((workflow) => briefWorkflow(workflow, this.#sources(workflow.id))), next }
  }

  /** The workflow as soon as it has ended, or as it is after `limitMs`. @throws MarketError UNKNOWN_WORKFLOW */
  async settled(
    id: string,
    options: { limitMs: number; signal?: AbortSignal },
    caller = OPERATOR,
  ): Promise<WorkflowRecord> {
    this.#known(id, caller)
    await this.#deps.changes.until(id, () => isFinalWorkflow(this.#known(id).status), options)
    return this.get(id)
  }

  /** Takes a workflow as far as it can go now. */
  #turn(id: string): Promise<void> {
    const { logger, changes } = this.#deps
    return this.#exclusive(id, async () => {
      if (this.#stopped) return
      if (await this.#advance.run(id)) this.#forgetOrders(id)
      changes.tell(id)
    }).catch((error: unknown) => {
      logger.error({ err: error, workflow_id: id }, 'a workflow could not be taken further; it is tried again')
      this.#later(id, STORE_RETRY_MS)
    })
  }

  /** One after the other: of two that read a workflow, both would begin its next step. */
  #exclusive<T>(id: string, work: () => Promise<T>): Promise<T> {
    const result = (this.#turns.get(id) ?? Promise.resolve()).then(work)
    const turn = result.then(
      () => {},
      () => {},
    )
    this.#turns.set(id, turn)
    void turn.then(() => {
      if (this.#turns.get(id) === turn) this.#turns.delete(id)
    })
    return result
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

  #watchOrders(id: string): void {
    for (const order of this.#deps.store.orders(id)) this.#owners.set(order.id, id)
  }

  #forgetOrders(id: string): void {
    for (const order of this.#deps.store.orders(id)) this.#owners.delete(order.id)
  }

  #sources(id: string) {
    const { store, purchases } = this.#deps
    return { purchases, books: store.books(id), orders: store.orders(id) }
  }

  #known(id: string, caller = OPERATOR): StoredWorkflow {
    const workflow = this.#deps.store.get(id)
    if (workflow !== undefined && maySee(caller, workflow.tokenId)) return workflow
    throw new MarketError(
      'UNKNOWN_WORKFLOW',
      `no workflow ${id} is known here: see GET /workflows or stoa workflow list`,
    )
  }
}
