import type { Service } from '../../lib/lifecycle.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { LedgerChange } from '../../store/ledger-changes.ts'
import type { StoredPayment } from '../../store/payments.ts'
import { isLedgerAway } from '../../store/store-error.ts'
import { PeerError } from '../peer-error.ts'
import type { PaidRunDeps, X402ServerDeps } from './exchange.ts'
import { resultOf } from './result.ts'

const AT_ONCE_MAX = 16
/** Wait between two attempts while all slots are taken. */
const BUSY_WAIT_MS = 5_000
/** Settlements of this time share a look: few of them bring work. */
const SETTLED_WAIT_MS = 200
/**
 * Payments remembered whose runs failed, that wait until their buyers ask, or whose agents nobody sells. Beyond it nothing
 * runs without a request.
 */
const FAILED_MAX = 10_000

type SettledWorkDeps = PaidRunDeps &
  Pick<X402ServerDeps, 'didOf'> & {
    /** Other processes of this seller that sell an agent. */
    sellersOf(agentId: string): readonly string[]
    /** A number in [0, 1), to choose one of them. */
    chance(): number
  }

/**
 * Runs work that was settled after its buyer was answered with 2007, or before a crash (D39). Settled money gets its
 * work run and stored, even if the buyer never returns. A run that fails is run again when somebody asks.
 *
 * A process may take over work of agents that it does not sell. It gives that work to a process that sells them. If no
 * process does, the work waits: the agent may come back.
 */
export class SettledWork implements Service {
  readonly name = 'settled work'
  readonly #deps: SettledWorkDeps
  readonly #stopping = new AbortController()
  readonly #failed = new Set<Hex>()
  /** Work whose agents no process sold at the last look. */
  readonly #waiting = new Set<Hex>()
  #isWaitKnown = false
  #timer: NodeJS.Timeout | undefined
  /** When the next look is due, by the monotonic clock. */
  #dueAt = Number.POSITIVE_INFINITY
  #turn: Promise<void> = Promise.resolve()

  constructor(deps: SettledWorkDeps) {
    this.#deps = deps
  }

  /** Follows a change of the ledger. A deferred payment may have settled before its mark was stored. */
  changed(change: LedgerChange): void {
    if (change.record === 'deferral') this.wake()
    else if (change.record === 'payment' && change.to === 'settled' && change.from === 'open')
      this.#wakeWithin(SETTLED_WAIT_MS)
  }

  async start(): Promise<void> {
    this.wake()
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the node is stopping'))
    clearTimeout(this.#timer)
    await this.#turn
  }

  /** Looks for work at once, for example of a process that has ended. */
  wake(inMs = 0): void {
    if (this.#stopping.signal.aborted) return
    clearTimeout(this.#timer)
    this.#dueAt = performance.now() + inMs
    this.#timer = setTimeout(() => {
      this.#dueAt = Number.POSITIVE_INFINITY
      this.#turn = this.#turn.then(() => this.#run()).catch((error: unknown) => this.#readLater(error))
    }, inMs)
    this.#timer.unref()
  }

  #wakeWithin(ms: number): void {
    if (this.#dueAt > performance.now() + ms) this.wake(ms)
  }

  #readLater(error: unknown): void {
    this.#deps.logger.error({ err: error }, 'could not read which settled payments have not run; trying again soon')
    this.wake(BUSY_WAIT_MS)
  }

  async #run(): Promise<void> {
    // So many failures need the operator. Until then, buyers get their work run by asking.
    if (this.#failed.size >= FAILED_MAX) return
    const passed = this.#failed.size + this.#waiting.size
    const ids = await this.#deps.deferred.unrun(AT_ONCE_MAX + passed)
    if (this.#stopping.signal.aborted) return
    const isDue = (id: Hex) => !this.#failed.has(id) && !this.#waiting.has(id)
    const due = passed >= FAILED_MAX ? [] : ids.filter(isDue).slice(0, AT_ONCE_MAX)
    const busy = await Promise.all(due.map((id) => this.#runOne(id)))
    if (due.length > 0) return this.wake(busy.some(Boolean) ? BUSY_WAIT_MS : 0)
    const { size } = this.#waiting
    this.#waiting.clear()
    if (size > 0) this.wake(BUSY_WAIT_MS)
    if (size > 0 && !this.#isWaitKnown) {
      this.#deps.logger.warn(
        { count: size },
        'settled work waits for its agents, which no process of this seller sells',
      )
    }
    this.#isWaitKnown = size > 0
  }

  /** True if the agent of a payment is not sold here: its work goes to a process that sells it, or waits. */
  async #isLeft({ id, agentId, correlationId }: StoredPayment): Promise<boolean> {
    const { agents, payments, logger, sellersOf, chance } = this.#deps
    if (agents.tokenOf(agentId) !== undefined) return false
    const sellers = sellersOf(agentId)
    const to = sellers[Math.floor(chance() * sellers.length)]
    if (to !== undefined && (await payments.giveRun(id, to))) {
      const ids = { payment_id: id, correlation_id: correlationId, agent_id: agentId }
      logger.info(ids, 'settled work of an agent that is not sold here goes to a process that sells it')
    } else this.#waiting.add(id)
    return true
  }

  /** @returns true if it is to be looked at again soon */
  async #runOne(id: Hex): Promise<boolean> {
    const { payments, logger, didOf } = this.#deps
    let correlationId: string | undefined
    try {
      const payment = await payments.get(id)
      if (payment === undefined) return false
      // Its run has failed before this start, or at a process that has ended: the next request runs it again.
      if (payment.failedRuns !== undefined) {
        this.#failed.add(id)
        return false
      }
      const { peerId } = payment
      correlationId = payment.correlationId
      if (await this.#isLeft(payment)) return false
      const caller = { peerId, callerDid: didOf(peerId), correlationId, signal: this.#stopping.signal }
      await resultOf(payment, caller, this.#deps)
      return false
    } catch (error) {
      if (this.#stopping.signal.aborted) return false
      // No slot, or another process runs it or pays it back: if that one ends, it is left to this one.
      if (error instanceof PeerError && (error.code === 'OVERLOADED' || error.code === 'SETTLEMENT_FAILED')) return true
      const ids = { payment_id: id, correlation_id: correlationId }
      // No word about the agent: the work is still owed to its buyer.
      if (isLedgerAway(error)) {
        logger.warn({ ...ids, err: error }, 'settled work waits for the ledger')
        return true
      }
      logger.error(
        { ...ids, err: error },
        'the agent failed for a settled payment: the next request for the result runs it again',
      )
      this.#failed.add(id)
      return false
    }
  }
}
