import { type Clock, ClockJumps } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import type { Hex } from '../schema/primitives.ts'
import type { NewExchange } from '../store/exchanges.ts'
import { isWorkDone } from '../store/payment-row.ts'
import type { Claim, Payments, StoredPayment } from '../store/payments.ts'
import { askChain, type PaymentChain, queryOf } from './chain-verdict.ts'
import type { Facilitator } from './facilitator.ts'
import { FirstAttempts } from './first-attempts.ts'
import { owedOf, validBeforeMs } from './outbox-entry.ts'
import { OutboxTimer } from './outbox-timer.ts'
import {
  ATTEMPT_TIMEOUT_MS,
  attemptStarted,
  canAttempt,
  executed,
  type OwedPayment,
  type Payment,
  queued,
  settled,
  voided,
  withheld,
} from './payment.ts'
import { SettleAttempts } from './settle-attempts.ts'
import { SettledWatch } from './settled-watch.ts'
import { type ClaimedPayment, idsOf, shownState, stateAfter, stateWithoutAttempt } from './settlement-states.ts'
import { untilShown } from './until-shown.ts'

/** Entries of the outbox that are looked at together. */
const CONCURRENT_MAX = 16
/** Open attempts. Beyond it answers go out with settlement pending, so that none wait for a hanging facilitator. */
const ATTEMPTS_MAX = 256
/** Wait before the outbox is read again while no attempt may begin. */
const FULL_WAIT_MS = 200
const TICK_MAX_MS = 60_000

type SettlerDeps = {
  clock: Clock
  logger: Logger
  payments: Payments
  /** Undefined: no facilitator is configured and payments stay owed. */
  facilitator: Facilitator | undefined
  /** Undefined: no RPC is configured and the facilitator's report decides. */
  chain?: PaymentChain | undefined
  /** True if the agent still exists, asked before a payment is settled ahead of its run. Undefined: always true. */
  isOffered?(agentId: string): boolean
  /** A number in [0, 1) for the jitter of the back-off. */
  chance(): number
}

const RUN_INTERRUPTED = 'the node stopped while the agent ran; the buyer was not charged'

/**
 * Takes every accepted payment to its end: claim, then void or settlement through the facilitator (D31, D34). The
 * outbox is the store: owed payments are found there by due time, also after a restart.
 */
export class Settler implements Service {
  readonly name = 'settler'
  readonly #deps: SettlerDeps
  readonly #busy = new Map<Hex, Promise<void>>()
  readonly #attempts: SettleAttempts
  readonly #first: FirstAttempts
  readonly #jumps: ClockJumps
  readonly #timer: OutboxTimer
  readonly #watch: SettledWatch
  #stopping = false

  constructor(
    options: { firstAttemptWaitMs?: number; attemptTimeoutMs?: number; tickMaxMs?: number },
    deps: SettlerDeps,
  ) {
    this.#deps = deps
    this.#jumps = new ClockJumps(deps.clock)
    this.#first = new FirstAttempts(options.firstAttemptWaitMs)
    this.#attempts = new SettleAttempts(options.attemptTimeoutMs ?? ATTEMPT_TIMEOUT_MS, deps)
    this.#timer = new OutboxTimer({ tickMaxMs: options.tickMaxMs ?? TICK_MAX_MS, tick: () => this.#tick() }, deps)
    const watching = { ...deps, chain: deps.chain, wake: () => this.wake() }
    this.#watch = new SettledWatch({ tickMaxMs: options.tickMaxMs }, watching)
  }

  async start(): Promise<void> {
    await this.takeOver()
  }

  /** Goes on with the payments of processes that have ended. */
  async takeOver(): Promise<void> {
    const { payments, clock, logger } = this.#deps
    const lost = await payments.takeOver(RUN_INTERRUPTED, clock.now())
    if (lost > 0) logger.warn({ count: lost }, 'voided payments whose run was interrupted')
    this.wake()
    this.#watch.wake()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    this.#attempts.abort(new Error('the node is stopping'))
    await Promise.all([this.#timer.stop(), this.#watch.stop()])
    await Promise.allSettled(this.#busy.values())
  }

  /** Stores a verified payment that settles before its agent runs. False if it was used before. */
  claim(claim: Claim): Promise<boolean> {
    return this.#deps.payments.claim(claim, this.#deps.clock.now())
  }

  async void(id: Hex, reason: string, exchange: NewExchange): Promise<void> {
    const now = this.#deps.clock.now()
    await this.#deps.payments.deliver(voided({ state: 'authorized', id }, reason), exchange, now)
  }

  /**
   * Stores the result and the owed payment, then makes the first attempt.
   *
   * @param options `awaitsSettlement: false`: returns when result and debt are on disk (D46)
   * @returns undefined while settlement is pending
   */
  async deliver(
    claim: Claim,
    exchange: NewExchange,
    { awaitsSettlement = true }: { awaitsSettlement?: boolean | undefined } = {},
  ): Promise<Hex | undefined> {
    const { clock, payments } = this.#deps
    const owed = this.#owed(claim.id)
    await payments.deliver(owed, exchange, clock.now())
    faultPoint('seller:owed')
    const answered = this.#firstAttempt(claim, owed)
    return awaitsSettlement ? answered : undefined
  }

  /** The transaction that a buyer has received, if it is not on disk yet. */
  namedFor(id: Hex): Hex | undefined {
    return this.#first.namedFor(id)
  }

  /** Resolves when every payment delivered so far has had its first attempt, or the time for it. */
  idle(): Promise<void> {
    return this.#first.idle()
  }

  /** Looks at the outbox now, because an entry became due. */
  wake(): void {
    this.#timer.schedule(0)
  }

  /** Settles before the agent runs (`--settle-first`). Returns the hash once the chain shows it (D50). */
  async settleFirst(claim: Claim): Promise<Hex | undefined> {
    const { clock, payments } = this.#deps
    const owed = this.#owed(claim.id)
    await payments.save(owed, clock.now())
    const named = await this.#firstAttempt(claim, owed)
    return named === undefined || this.#deps.chain === undefined ? named : this.#shown(claim, this.#deps.chain)
  }

  /** Waits until the chain shows the named transaction. After the limit, the outbox continues to look. */
  #shown(claim: Claim, chain: PaymentChain): Promise<Hex | undefined> {
    const look = () => this.#exclusive(claim, () => this.#confirm(claim, chain))
    const ended = () => this.#stopping
    return untilShown({ payment: () => this.#deps.payments.get(claim.id), look, ended }, this.#first.waitMs)
  }

  async #confirm({ id }: Claim, chain: PaymentChain): Promise<void> {
    const stored = await this.#deps.payments.get(id)
    if (stored?.state !== 'owed') return
    const verdict = await askChain(queryOf(stored, stored.txHash), chain)
    if (verdict.kind === 'paid')
      await this.#save(stored, settled(owedOf(stored), verdict.txHash, this.#deps.clock.now()))
  }

  /** A payment whose first attempt follows at once, or waits in the outbox if too many are under way. */
  #owed(id: Hex): OwedPayment {
    const hasRoom = this.#attempts.size < ATTEMPTS_MAX
    return (hasRoom ? executed : queued)({ state: 'authorized', id }, this.#deps.clock.now())
  }

  /** Answers before the state is stored. If the state is lost, the chain is asked again. */
  async #firstAttempt(claim: Claim, owed: OwedPayment): Promise<Hex | undefined> {
    if (owed.attempts === 0) {
      this.wake()
      return undefined
    }
    const { promise: answered, resolve: answer } = Promise.withResolvers<Hex | undefined>()
    void this.#exclusive(claim, async () => {
      const outcome = await this.#attempts.settle(claim, true)
      faultPoint('seller:settle-answered')
      const txHash = outcome.kind === 'settled' ? outcome.txHash : undefined
      const stored = this.#first.name(claim.id, txHash)
      answer(txHash)
      await stateAfter({ payment: claim, owed }, outcome, this.#deps)
        .then((next) => this.#save(claim, next))
        .finally(stored)
    })
    return this.#first.wait(answered)
  }

  /** Runs `work` on a payment unless a step already runs. Rescheduling finds the payment again. */
  #exclusive(payment: ClaimedPayment, work: () => Promise<void>): Promise<void> {
    const { id } = payment
    const running = this.#busy.get(id)
    if (running !== undefined) return running
    const promise = work()
      .catch((error: unknown) => {
        this.#timer.failed()
        this.#deps.logger.error({ ...idsOf(payment), err: error }, 'settlement step failed')
      })
      .finally(() => this.#busy.delete(id))
    this.#busy.set(id, promise)
    return promise
  }

  /** Takes the next steps of payments that are due. Does not wait for the facilitator. @returns false without room */
  async #sweep(): Promise<boolean> {
    // Some room is left when deliveries take all of theirs.
    const room = ATTEMPTS_MAX + CONCURRENT_MAX - this.#attempts.size
    if (room <= 0) return false
    const due = await this.#deps.payments.due(this.#deps.clock.now(), Math.min(room, CONCURRENT_MAX))
    if (this.#stopping) return true
    const begun = (payment: StoredPayment) => {
      const { promise: attempting, resolve } = Promise.withResolvers<void>()
      return Promise.race([this.#exclusive(payment, () => this.#stepIfUnchanged(payment, resolve)), attempting])
    }
    await Promise.all(due.map(begun))
    return true
  }

  /** Another step may have run since the outbox was read. This one would then attempt again what is settled. */
  async #stepIfUnchanged(read: StoredPayment, attempting: () => void): Promise<void> {
    const payment = await this.#deps.payments.get(read.id)
    if (payment?.state !== 'owed') return
    const isUnchanged = payment.attempts === read.attempts && payment.nextAttemptAt === read.nextAttemptAt
    if (isUnchanged) await this.#step(payment, attempting)
  }

  /** @param attempting called when the facilitator is asked. What follows may take long. */
  async #step(payment: StoredPayment, attempting: () => void): Promise<void> {
    const save = (next: Payment) => this.#save(payment, next)
    let owed = owedOf(payment)
    if (owed.unclear) {
      const known = await shownState(payment, owed, this.#deps)
      if (known !== undefined) return save(known)
    }
    const at = { now: this.#deps.clock.now(), validBeforeMs: validBeforeMs(payment) }
    if (!canAttempt(owed, at)) return save(await stateWithoutAttempt(payment, owed, this.#deps))
    if (!isWorkDone(payment) && this.#deps.isOffered?.(payment.agentId) === false) return save(withheld(owed, at.now))
    const isFirst = !owed.unclear
    owed = attemptStarted(owed, at.now)
    await save(owed)
    const attempt = this.#attempts.settle(payment, isFirst)
    attempting()
    await save(await stateAfter({ payment, owed }, await attempt, this.#deps))
  }

  async #save(payment: ClaimedPayment, step: Payment): Promise<void> {
    const next = step.state === 'settled' ? this.#watch.watched(step, payment) : step
    await this.#deps.payments.save(next, this.#deps.clock.now())
    if (next.state === 'settled') faultPoint('seller:settled')
    if (next.state === 'unsettled')
      this.#deps.logger.error({ ...idsOf(payment), reason: next.error }, 'a payment could not be settled')
    if (next.state === 'owed') this.#timer.schedule(next.nextAttemptAt - this.#deps.clock.now())
  }

  async #tick(): Promise<number> {
    const { payments, clock } = this.#deps
    // Due times are wall-clock: after a clock jump, look at every owed payment, which also sets new due times.
    if (this.#jumps.seen()) await payments.hasten(clock.now())
    if (!(await this.#sweep())) return FULL_WAIT_MS
    const next = await payments.nextDueAt()
    return next === undefined ? TICK_MAX_MS : next - clock.now()
  }
}
