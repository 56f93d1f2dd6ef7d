import type { Clock, UnixMs } from '../../lib/clock.ts'
import { MarketError } from '../../listings/market-error.ts'
import { isUnspentSince, type PaymentChain } from '../../payments/chain-verdict.ts'
import { TASK_BYTES_MAX } from '../../schema/limits.ts'
import type { Listing } from '../../schema/listing.ts'
import type { OrderError } from '../../store/order-row.ts'
import type { Purchases } from '../../store/purchases.ts'
import type { StoredStep, StoredWorkflow } from '../../store/workflow-row.ts'
import type { StepChange, WorkflowStore } from '../../store/workflows.ts'
import { foreignNetwork } from '../guard.ts'
import { AWAY_MS } from '../order-requests.ts'
import type { Orders } from '../orders.ts'
import { orderError } from '../run-order.ts'
import { unaskedOrder, wishOfStep } from '../web/first-request.ts'
import type { WebSellers } from '../web/web-sellers.ts'
import { judgeFunds } from './funds.ts'
import { type Attempt, isFinalWorkflow, nextMove, statusOf, stepsToBegin, stepsToSkip } from './progress.ts'
import { costOf } from './quote.ts'
import { fillTemplate, parseTemplate, stepsIn } from './template.ts'

export type AdvanceDeps = {
  clock: Clock
  store: WorkflowStore
  purchases: Pick<Purchases, 'order' | 'reservationOf'>
  orders: Pick<Orders, 'compose' | 'enqueue'>
  resolve(agentId: string): Listing | undefined
  /** True while an agent of this node is not on the market only because the node starts or stops. */
  isAway(agentId: string): boolean
  maxPrice(): bigint
  web: Pick<WebSellers, 'url'>
  /** Undefined: only the seller's claims are known. */
  chain?: PaymentChain | undefined
  /** Checks the workflow when the order changes. */
  watch(orderId: string, workflowId: string): void
  /** Checks the workflow after a delay. */
  later(workflowId: string, inMs: number): void
}

/** Pause between two chain checks of a seller's claim, and the longest duration of one check. */
const LOOK_MS = 2_000
const LOOK_TIMEOUT_MS = 5_000

/** Which agent a step asks next, by index, and the number of the attempt. */
type AgentChoice = { agent: number; tries: number }

/**
 * Advances workflows step by step. The caller runs one `run` or `cancel` per workflow at a time.
 *
 * Another process may advance the same workflow. A change that was decided on an older revision is not stored, and the
 * workflow is read again.
 */
export class Advance {
  readonly #deps: AdvanceDeps

  constructor(deps: AdvanceDeps) {
    this.#deps = deps
  }

  /** Advances a workflow as far as it can go. @returns true if nothing of it is left to wait for */
  async run(id: string): Promise<boolean> {
    for (;;) {
      const workflow = await this.#deps.store.get(id)
      if (workflow === undefined) return true
      if (!(await this.#pass(workflow))) {
        return isFinalWorkflow(workflow.status) && !workflow.steps.some(({ status }) => status === 'running')
      }
    }
  }

  /** Skips the pending steps. @returns the orders of running steps. @throws MarketError WORKFLOW_FINAL */
  async cancel(id: string): Promise<string[]> {
    const { store, clock } = this.#deps
    const workflow = (await store.get(id))!
    const { status, steps } = workflow
    if (isFinalWorkflow(status)) throw new MarketError('WORKFLOW_FINAL', `workflow ${id} is ${status}`)
    const skipped = steps.filter((step) => step.status === 'pending').map((step) => this.#ended(step, 'skipped'))
    if (!(await store.save(workflow, skipped, 'canceled', clock.now()))) return this.cancel(id)
    return steps.flatMap((step) => (step.status === 'running' && step.orderId !== undefined ? [step.orderId] : []))
  }

  /** Checks each step once. @returns true if something changed, so that another pass may find more */
  async #pass(workflow: StoredWorkflow): Promise<boolean> {
    const { store, clock } = this.#deps
    let moved = false
    for (const step of workflow.steps) {
      if (step.status === 'running' && (await this.#judge(workflow, step))) moved = true
    }
    // Read the ended steps again before any new step begins.
    if (moved) return true
    const canceled = workflow.status === 'canceled'
    const skipped = stepsToSkip(workflow.steps).map((step) => this.#ended(step, 'skipped'))
    const status = canceled ? workflow.status : statusOf(workflow.steps)
    if (skipped.length > 0 || status !== workflow.status) {
      await store.save(workflow, skipped, status, clock.now())
      return true
    }
    if (isFinalWorkflow(status)) return false
    for (const step of stepsToBegin(workflow.steps)) {
      // Begin one step per pass, because each order changes the remaining budget.
      if (await this.#ask(workflow, step, { agent: 0, tries: 1 })) return true
    }
    return false
  }

  /** Acts on the state of the step's latest attempt. @returns true if the step has changed */
  async #judge(workflow: StoredWorkflow, step: StoredStep): Promise<boolean> {
    const { clock, later } = this.#deps
    const { attempt, at } = await this.#attemptOf(workflow, step)
    const fallbacksLeft = step.agents.length - 1 - step.agent
    const { tries, retries, rebuy } = step
    const move = nextMove(attempt, { tries, retries, fallbacksLeft, rebuy })
    const isCalledOff = workflow.status === 'canceled'
    switch (move.kind) {
      case 'complete':
        return this.#end(workflow, this.#ended(step, 'completed'))
      case 'cancel':
        return this.#end(workflow, {
          ...this.#ended(step, isCalledOff ? 'canceled' : 'failed'),
          ...(!isCalledOff && { error: canceledByHand }),
        })
      case 'fail':
        return this.#end(workflow, { ...this.#ended(step, 'failed'), error: attempt.error })
      case 'wait':
        return isCalledOff && attempt.status === 'failed' ? this.#end(workflow, this.#ended(step, 'canceled')) : false
      case 'fall back':
        if (isCalledOff) return this.#end(workflow, this.#ended(step, 'canceled'))
        if (move.ifUnspent === true && !(await this.#isUnspent(step.orderId!, at))) {
          later(workflow.id, LOOK_MS)
          return false
        }
        return this.#ask(workflow, step, { agent: step.agent + 1, tries: 1 })
      case 'retry': {
        if (isCalledOff) return this.#end(workflow, this.#ended(step, 'canceled'))
        const waitMs = at + move.inMs - clock.now()
        if (waitMs <= 0) return this.#ask(workflow, step, { agent: step.agent, tries: step.tries + 1 })
        later(workflow.id, Math.min(waitMs, move.inMs))
        return false
      }
    }
  }

  /** Returns true if a block after the seller's answer shows the authorization as unspent. */
  async #isUnspent(orderId: string, answeredAt: UnixMs): Promise<boolean> {
    const { chain, purchases } = this.#deps
    const reservation = await purchases.reservationOf(orderId)
    if (chain === undefined || reservation === undefined) return true
    const { envelope, requirements } = reservation
    // A call on a channel has no authorization. Its seller has said that nothing was charged.
    if (envelope.payload === undefined) return reservation.state === 'released'
    const { authorization } = envelope.payload
    const payment = { asset: requirements.asset, authorization }
    return isUnspentSince(answeredAt, payment, chain, AbortSignal.timeout(LOOK_TIMEOUT_MS))
  }

  /** Returns the latest attempt at a step: its order, or the refusal to place one. */
  async #attemptOf(workflow: StoredWorkflow, step: StoredStep): Promise<{ attempt: Attempt; at: number }> {
    // Read at once: an order that has failed and a payment from before it was signed would allow another purchase.
    const made = await this.#deps.store.attempts(workflow.id, step.id)
    // An earlier order for this step lost money. Then only the workflow's `rebuy` rule allows another order.
    const isSpent = step.rebuy !== true && made.some(({ signed }) => signed === 'spent')
    const order = made.find(({ orderId }) => orderId === step.orderId)
    if (step.error !== undefined || order === undefined) {
      const signed = isSpent ? 'spent' : undefined
      return { attempt: { status: 'failed', error: step.error, signed }, at: step.refusedAt ?? 0 }
    }
    const { settlesFirst } = order
    const signed = isSpent ? 'spent' : order.signed
    return { attempt: { status: order.status, error: order.error, signed, settlesFirst }, at: order.updatedAt }
  }

  /** Places the order for a step, or stores why it cannot. @returns true if the step has changed */
  async #ask(workflow: StoredWorkflow, step: StoredStep, asked: AgentChoice): Promise<boolean> {
    const { store, orders, clock, watch } = this.#deps
    const agentId = step.agents[asked.agent]!
    const terms = await this.#termsFor(workflow, step, asked.agent)
    if (terms === 'wait') return false
    const now = clock.now()
    const startedAt = step.startedAt ?? now
    if ('code' in terms) {
      const refused = { id: step.id, status: 'running', ...asked, error: terms, refusedAt: now, startedAt } as const
      await store.save(workflow, [refused], 'running', now)
      return true
    }
    const order = orders.compose(
      { agentId, channel: step.channel, ...terms, tokenId: workflow.tokenId },
      { workflowId: workflow.id, stepId: step.id },
    )
    if (!(await store.begin(workflow, { id: step.id, ...asked, startedAt }, order, now))) return true
    watch(order.id, workflow.id)
    orders.enqueue(order.id)
    return true
  }

  /** Returns the price limit and the task of a step, or why it cannot be ordered yet. */
  async #termsFor(workflow: StoredWorkflow, step: StoredStep, agent: number) {
    const { store, maxPrice, web } = this.#deps
    const atUrl = agent === 0 ? step.web : undefined
    const cost = atUrl === undefined ? this.#costOf(step.agents[agent]!) : step.maxPrice!
    if (cost === 'away') {
      this.#deps.later(workflow.id, AWAY_MS)
      return 'wait'
    }
    if (typeof cost !== 'bigint') return cost
    const verdict = judgeFunds({
      cost,
      stepMax: step.maxPrice,
      nodeMax: maxPrice(),
      budget: workflow.budget,
      spending: await store.spending(workflow.id),
      rest: workflow.steps.reduce((sum, { id, status, price }) => {
        return status === 'pending' && id !== step.id ? sum + price : sum
      }, 0n),
    })
    if (verdict !== 'buy') return verdict
    try {
      const task = await this.#taskOf(workflow, step)
      if (atUrl === undefined) return { price: cost, task }
      return { price: cost, ...unaskedOrder(web.url(atUrl.url), wishOfStep(atUrl, task)) }
    } catch (error) {
      if (error instanceof MarketError) return orderError(error)
      throw error
    }
  }

  #costOf(agentId: string): bigint | OrderError | 'away' {
    const listing = this.#deps.resolve(agentId)
    if (listing === undefined && this.#deps.isAway(agentId)) return 'away'
    if (listing === undefined) {
      return { code: 'UNKNOWN_AGENT', message: `agent ${agentId} is not on the market now`, retryable: true }
    }
    const foreign = foreignNetwork(listing)
    return foreign === undefined ? costOf(listing) : { code: 'NETWORK_MISMATCH', message: foreign, retryable: false }
  }

  async #taskOf({ input, steps }: StoredWorkflow, step: StoredStep): Promise<string> {
    const template = parseTemplate(step.input)
    const outputs = new Map<string, string>()
    for (const id of stepsIn(template)) {
      const orderId = steps.find((other) => other.id === id)?.orderId
      const order = orderId === undefined ? undefined : await this.#deps.purchases.order(orderId)
      outputs.set(id, order?.output ?? '')
    }
    return fillTemplate(template, { input, outputOf: (id) => outputs.get(id) ?? '' }, TASK_BYTES_MAX)
  }

  #ended({ id }: StoredStep, status: StoredStep['status']): StepChange {
    return { id, status, endedAt: this.#deps.clock.now(), ...(status !== 'failed' && { error: undefined }) }
  }

  async #end(workflow: StoredWorkflow, change: StepChange): Promise<true> {
    await this.#deps.store.save(workflow, [change], workflow.status, this.#deps.clock.now())
    return true
  }
}

const canceledByHand: OrderError = { code: 'ORDER_CANCELLED', message: 'its order was canceled', retryable: false }
