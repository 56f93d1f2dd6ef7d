import { type Clock, ClockJumps } from '../lib/clock.ts'
import { faultPoint } from '../lib/fault-point.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { within } from '../lib/wait.ts'
import type { Hex } from '../schema/primitives.ts'
import type { NewExchange } from '../store/exchanges.ts'
import { isWorkDone } from '../store/payment-row.ts'
import type { Claim, Payments, StoredPayment } from '../store/payments.ts'
import { askChain, askChainAfter, type PaymentChain, queryOf } from './chain-verdict.ts'
import { type Facilitator, NO_FUNDS } from './facilitator.ts'
import { owedOf, validBeforeMs } from './outbox-entry.ts'
import { OutboxTimer } from './outbox-timer.ts'
import {
  ATTEMPT_TIMEOUT_MS,
  accepted,
  attemptFailed,
  attemptStarted,
  away,
  canAttempt,
  executed,
  type OwedPayment,
  type Payment,
  refused,
  settled,
  unattempted,
  voided,
  waiting,
  withheld,
} from './payment.ts'
import { type AttemptOutcome, SettleAttempts } from './settle-attempts.ts'
import { SettledWatch } from './settled-watch.ts'
import { untilShown } from './until-shown.ts'

/** How long the answer to a buyer waits for the first attempt (D31). */
const FIRST_ATTEMPT_WAIT_MS = 10_000
const CONCURRENT_MAX = 16
/** Open attempts. Beyond it answers go out with settlement pending, so that none wait for a hanging facilitator. */
const ATTEMPTS_MAX = 256
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

type ClaimedPayment = Pick<Claim, 'id' | 'correlationId' | 'signed' | 'requirements'>

const RUN_INTERRUPTED = 'the node stopped while the agent ran; the buyer was not charged'

/**
 * Takes every accepted payment to its end: claim, then void or settlement through the facilitator (D31, D34). The
 * outbox is the store: owed payments are found there by due time, also after a restart.
 */
export class Settler implements Service {
  readonly name = 'settler'
  readonly #deps: SettlerDeps
  readonly #firstAttemptWaitMs: number
  readonly #busy = new Map<Hex, Promise<void>>()
  readonly #attempts: SettleAttempts
  /** Hashes that buyers have received and that are not on disk yet. */
  readonly #named = new Map<Hex, Hex>()
  readonly namedFor = (id: Hex): Hex | undefined => this.#named.get(id)
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
    this.#firstAttemptWaitMs = options.firstAttemptWaitMs ?? FIRST_ATTEMPT_WAIT_MS
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

  /** Stores the result and the owed payment, then makes the first attempt. @returns undefined while it is pending */
  async deliver(claim: Claim, exchange: NewExchange): Promise<Hex | undefined> {
    const { clock, payments } = this.#deps
    const owed = executed({ state: 'authorized', id: claim.id }, clock.now())
    await payments.deliver(owed, exchange, clock.now())
    faultPoint('seller:owed')
    return this.#firstAttempt(claim, owed)
  }

  /** Looks at the outbox now, because an entry became due. */
  wake(): void {
    this.#timer.schedule(0)
  }

  /** Settles before the agent runs (`--settle-first`). Returns the hash once the chain shows it (D50). */
  async settleFirst(claim: Claim): Promise<Hex | undefined> {
    const { clock, payments } = this.#deps
    const owed = executed({ state: 'authorized', id: claim.id }, clock.now())
    await payments.save(owed, clock.now())
    const named = await this.#firstAttempt(claim, owed)
    return named === undefined || this.#deps.chain === undefined ? named : this.#shown(claim, this.#deps.chain)
  }

  /** Waits until the chain shows the named transaction. After the limit, the outbox continues to look. */
  #shown(claim: Claim, chain: PaymentChain): Promise<Hex | undefined> {
    const look = () => this.#exclusive(claim, () => this.#confirm(claim, chain))
    const ended = () => this.#stopping
    return untilShown({ payment: () => this.#deps.payments.get(claim.id), look, ended }, this.#firstAttemptWaitMs)
  }

  async #confirm({ id }: Claim, chain: PaymentChain): Promise<void> {
    const stored = await this.#deps.payments.get(id)
    if (stored?.state !== 'owed') return
    const verdict = await askChain(queryOf(stored, stored.txHash), chain)
    if (verdict.kind === 'paid')
      await this.#save(stored, settled(owedOf(stored), verdict.txHash, this.#deps.clock.now()))
  }

  /** Answers before the state is stored. If the state is lost, the chain is asked again. */
  async #firstAttempt(claim: Claim, owed: OwedPayment): Promise<Hex | undefined> {
    if (this.#attempts.size >= ATTEMPTS_MAX) {
      this.#timer.schedule(owed.nextAttemptAt - this.#deps.clock.now())
      return undefined
    }
    const { promise: answered, resolve: answer } = Promise.withResolvers<Hex | undefined>()
    void this.#exclusive(claim, async () => {
      const outcome = await this.#attempts.settle(claim, true)
      faultPoint('seller:settle-answered')
      if (outcome.kind === 'settled') this.#named.set(claim.id, outcome.txHash)
      answer(this.#named.get(claim.id))
      const saved = this.#afterAttempt(claim, owed, outcome).then((next) => this.#save(claim, next))
      await saved.finally(() => this.#named.delete(claim.id))
    })
    return (await within(this.#firstAttemptWaitMs, answered)) ? answered : undefined
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

  async #sweep(): Promise<void> {
    const due = await this.#deps.payments.due(this.#deps.clock.now(), CONCURRENT_MAX)
    if (this.#stopping) return
    await Promise.all(due.map((payment) => this.#exclusive(payment, () => this.#stepIfUnchanged(payment))))
  }

  /** Another step may have run since the outbox was read. This one would then attempt again what is settled. */
  async #stepIfUnchanged(read: StoredPayment): Promise<void> {
    const payment = await this.#deps.payments.get(read.id)
    if (payment?.state !== 'owed') return
    const isUnchanged = payment.attempts === read.attempts && payment.nextAttemptAt === read.nextAttemptAt
    if (isUnchanged) await this.#step(payment)
  }

  async #step(payment: StoredPayment): Promise<void> {
    const save = (next: Payment) => this.#save(payment, next)
    let owed = owedOf(payment)
    if (owed.unclear) {
      const known = await this.#askChain(payment, owed)
      if (known !== undefined) return save(known)
    }
    const at = { now: this.#deps.clock.now(), validBeforeMs: validBeforeMs(payment) }
    if (!canAttempt(owed, at)) {
      const mayStillSettle = owed.unclear && this.#deps.chain !== undefined
      return save(mayStillSettle ? waiting(owed, at) : refused(owed, owed.error ?? 'not settled in time'))
    }
    if (!isWorkDone(payment) && this.#deps.isOffered?.(payment.agentId) === false) return save(withheld(owed, at.now))
    const isFirst = !owed.unclear
    owed = attemptStarted(owed, at.now)
    await save(owed)
    await save(await this.#afterAttempt(payment, owed, await this.#attempts.settle(payment, isFirst)))
  }

  /** The next state of an unclear payment by what the chain shows; undefined if it must be tried again. */
  async #askChain(payment: StoredPayment, owed: OwedPayment): Promise<Payment | undefined> {
    const { chain, clock, logger, chance } = this.#deps
    if (chain === undefined) return undefined
    const at = { now: clock.now(), validBeforeMs: validBeforeMs(payment) }
    // Only a block past the window proves that nothing more can settle: our clock may be fast, and the chain may stall.
    const ask = at.now > at.validBeforeMs ? askChainAfter : askChain
    const verdict = await ask(queryOf(payment, owed.txHash), chain)
    if (verdict.kind === 'paid') return settled(owed, verdict.txHash, at.now)
    if (verdict.kind === 'never') return refused(owed, verdict.reason, { blamed: true })
    if (verdict.kind === 'unknown') {
      logger.warn({ ...idsOf(payment), reason: verdict.reason }, 'the chain cannot tell about a payment')
      // The facilitator reports it as paid: make no attempt, wait until the chain shows it.
      return owed.txHash === undefined ? undefined : waiting(owed, at)
    }
    if (at.now > at.validBeforeMs) return refused(owed, `expired unpaid: ${owed.error ?? 'no attempt succeeded'}`)
    if (owed.txHash !== undefined) {
      const error = `the facilitator named ${owed.txHash}, but the chain shows no such payment`
      return attemptFailed(owed, { error, unclear: true }, { ...at, chance: chance() })
    }
    return undefined
  }

  async #afterAttempt(payment: ClaimedPayment, owed: OwedPayment, outcome: AttemptOutcome): Promise<Payment> {
    const { clock, logger, chain, chance } = this.#deps
    if (outcome.kind === 'settled') {
      const { txHash } = outcome
      return chain === undefined ? settled(owed, txHash, clock.now()) : accepted(owed, txHash, clock.now())
    }
    const { reason } = outcome
    if (outcome.kind === 'spent') return refused(unattempted(owed), reason, { blamed: true })
    const isAway = outcome.kind === 'unreached' || outcome.kind === 'down'
    // Logged once per payment. The facilitator's return is logged once for all.
    if (isAway && owed.error === undefined)
      logger.info({ ...idsOf(payment), reason }, 'settlement waits for the facilitator')
    if (!isAway) logger.warn({ ...idsOf(payment), count: owed.attempts, reason }, 'settlement attempt failed')
    const moment = () => ({ now: clock.now(), validBeforeMs: validBeforeMs(payment), chance: chance() })
    if (outcome.kind === 'unreached') return away(owed, { error: reason, unclear: false }, moment())
    if (outcome.kind !== 'unclear') {
      // "No money", "expired" or "down" can also mean that an earlier attempt has paid. The chain decides.
      const verdict = chain && (await askChain(queryOf(payment), chain))
      if (verdict?.kind === 'paid') return settled(owed, verdict.txHash, clock.now())
      if (outcome.kind === 'refused' && verdict?.kind !== 'unknown')
        return refused(owed, reason, { blamed: verdict?.kind === 'never' || NO_FUNDS.test(reason) })
      if (verdict?.kind === 'never') return refused(owed, verdict.reason, { blamed: true })
      if (verdict?.kind === 'unpaid') return away(owed, { error: reason, unclear: true }, moment())
    }
    return attemptFailed(owed, { error: reason, unclear: chain !== undefined }, moment())
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
    await this.#sweep()
    const next = await payments.nextDueAt()
    return next === undefined ? TICK_MAX_MS : next - clock.now()
  }
}

/** Log fields shared with the exchange, so that both are found together, here and at the buyer. */
function idsOf({ id, correlationId }: Pick<Claim, 'id' | 'correlationId'>) {
  return { payment_id: id, correlation_id: correlationId }
}
