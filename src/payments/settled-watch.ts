import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Claim, Payments, StoredPayment } from '../store/payments.ts'
import {
  askChain,
  askChainAfter,
  type ChainVerdict,
  type PaymentChain,
  queryOf,
  SETTLED_FINAL_MS,
} from './chain-verdict.ts'
import { validBeforeMs } from './outbox-entry.ts'
import { OutboxTimer } from './outbox-timer.ts'
import { SETTLEMENT_ATTEMPTS_MAX, type SettledPayment } from './payment.ts'

/** The look within the window leaves this much time for another attempt. */
const BEFORE_END_MS = 45_000
/** A settlement is not looked up again sooner than this. */
const SETTLED_MIN_MS = 10_000
const UNKNOWN_WAIT_MS = 15_000
/** After 24 h without an answer from the chain, its first answer counts. */
const LIMIT_MS = 24 * 60 * 60 * 1000
const LOOKS_MAX = 16
const TICK_MAX_MS = 60_000

type SettledWatchDeps = {
  clock: Clock
  logger: Logger
  payments: Payments
  chain: PaymentChain | undefined
  wake(): void
}

/**
 * Looks at settled payments again: before the window ends, while another attempt is possible, and once more after it. A
 * reorganization can undo a transfer. The authorization is then unspent, and valid until its window ends.
 */
export class SettledWatch {
  readonly #deps: SettledWatchDeps
  readonly #timer: OutboxTimer

  constructor(options: { tickMaxMs?: number | undefined }, deps: SettledWatchDeps) {
    this.#deps = deps
    const tick = () => this.#tick()
    this.#timer = new OutboxTimer({ tickMaxMs: options.tickMaxMs ?? TICK_MAX_MS, tick }, deps)
  }

  /** Looks now, because a payment became due. */
  wake(): void {
    if (this.#deps.chain !== undefined) this.#timer.schedule(0)
  }

  async stop(): Promise<void> {
    await this.#timer.stop()
  }

  /** A newly settled payment, with the time of its next look. */
  watched(settled: SettledPayment, payment: Pick<Claim, 'signed'>): SettledPayment {
    const { chain, clock } = this.#deps
    if (chain === undefined) return settled
    const lookAt = firstLookAt(validBeforeMs(payment), clock.now())
    this.#timer.schedule(lookAt - clock.now())
    return { ...settled, lookAt }
  }

  async #tick(): Promise<number> {
    const { payments, clock } = this.#deps
    const due = await payments.settledDue(clock.now(), LOOKS_MAX)
    if (!this.#timer.stopped) await Promise.all(due.map((payment) => this.#look(payment)))
    const next = await payments.nextLookAt()
    return next === undefined ? TICK_MAX_MS : next - clock.now()
  }

  async #look(payment: StoredPayment): Promise<void> {
    const { chain, clock, payments } = this.#deps
    if (chain === undefined) return
    const endMs = validBeforeMs(payment)
    const isOver = clock.now() >= endMs
    const verdict = await (isOver ? askChainAfter : askChain)(queryOf(payment, payment.txHash), chain)
    const now = clock.now()
    if (verdict.kind === 'unpaid' || verdict.kind === 'never') return this.#takeBack(payment, verdict)
    if (verdict.kind === 'paid') {
      const isFinal = isOver && now >= endMs + SETTLED_FINAL_MS
      return payments.lookAgain(payment.id, isFinal ? undefined : endMs + SETTLED_FINAL_MS, verdict.txHash)
    }
    await payments.lookAgain(payment.id, now > endMs + LIMIT_MS ? undefined : now + UNKNOWN_WAIT_MS)
  }

  async #takeBack(payment: StoredPayment, verdict: ChainVerdict): Promise<void> {
    const { clock, payments, logger, wake } = this.#deps
    const now = clock.now()
    const error = `the chain has taken back the settlement in ${payment.txHash ?? 'a transaction'}`
    // Allow at least two more attempts. The end of the window limits them further.
    const attempts = Math.max(1, Math.min(payment.attempts, SETTLEMENT_ATTEMPTS_MAX - 2))
    const owed = { id: payment.id, attempts, nextAttemptAt: now, error }
    if (!(await payments.takeBack(owed, now))) return
    const ids = { payment_id: payment.id, correlation_id: payment.correlationId, tx_hash: payment.txHash }
    logger.warn({ ...ids, status: verdict.kind }, 'the chain has taken back a settlement; the payment is owed again')
    wake()
  }
}

/** One look before the window ends if there is time, else a look `SETTLED_FINAL_MS` after the window. */
function firstLookAt(endMs: UnixMs, now: UnixMs): UnixMs {
  const beforeEnd = endMs - BEFORE_END_MS
  return beforeEnd > now + SETTLED_MIN_MS ? beforeEnd : endMs + SETTLED_FINAL_MS
}
