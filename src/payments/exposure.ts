import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import { Hold } from '../lib/hold.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { parsePrice } from '../schema/amount.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Exposed } from '../store/exposed.ts'
import type { LedgerChange, PaymentChange } from '../store/ledger-changes.ts'
import { isWorkDone } from '../store/payment-row.ts'
import type { Claim, Payments, StoredPayment } from '../store/payments.ts'
import { askFunds, type FundsChain } from './funds.ts'
import { KnownLosses } from './known-losses.ts'
import { LatestPayers } from './latest-payers.ts'
import { lossOf } from './losses.ts'
import { OpenWork } from './open-work.ts'
import { Recounts } from './recounts.ts'

export type ExposureOptions = {
  /**
   * Unsettled work allowed for one payer and in total, in atomic units. Recent losses count toward the total: accounts
   * cost nothing, so each new account could otherwise take `perPayerMax` once.
   */
  perPayerMax: bigint
  totalMax: bigint
  /** From this amount on, the node checks the balance of the payer on chain. */
  checkFrom: bigint
}

export type ExposureDeps = {
  clock: Clock
  logger: Logger
  payments: Pick<Payments, 'open' | 'lost' | 'exposed' | 'exposedIds' | 'recount'>
  /** Undefined: balances are unknown. */
  chain: FundsChain | undefined
}

/** `settle first`: the payment is settled before the agent runs, as with `--settle-first`. */
type ExposureVerdict =
  | { kind: 'run'; held?: bigint | undefined }
  | { kind: 'settle first' }
  | { kind: 'refuse'; reason: string }

export const exposureLimits: ExposureOptions = {
  perPayerMax: parsePrice('10'),
  totalMax: parsePrice('100'),
  checkFrom: parsePrice('1'),
}

const CHECK_TIMEOUT_MS = 5_000
/** Limit for the check of a cheap run. Without an answer it runs, and the limits above bound the loss. */
const CHEAP_CHECK_TIMEOUT_MS = 2_000
/** After the RPC fails, cheap runs skip the check for this long. */
const CHAIN_AWAY_MS = 10_000

/** Peers whose latest payer is remembered. Without room the peer settles first. @internal Exported for its test. */
export const PEERS_MAX = 10_000
/** Peers remembered for one payer. */
const PEERS_PER_PAYER_MAX = 16
/** Open payments of any amount. Beyond it every payment settles first. */
const OPEN_MAX = 100_000

/**
 * Bounds the work done for payments that have not settled (T6). A signed payment is worthless once its authorization is
 * canceled or its account is empty, and a payer can sign many against one balance.
 *
 * The ledger decides (ADR-29): each claim is counted there, beside those of other processes, and a claim that is over a
 * limit settles first. What this process remembers only predicts it, and is checked when it says too much.
 */
export class Exposure implements Service {
  readonly name = 'exposure'
  readonly #options: ExposureOptions
  readonly #deps: ExposureDeps
  readonly #work = new OpenWork()
  readonly #losses: KnownLosses
  readonly #recounts: Recounts
  /** Predicts what a peer hears before it signs. The limits themselves count by account. */
  readonly #payers = new LatestPayers({
    peersMax: PEERS_MAX,
    perPayerMax: PEERS_PER_PAYER_MAX,
    owes: (payer) => this.#work.of(payer) > 0n,
  })
  /** Work of other processes, as the ledger told it last. */
  #elsewhere = 0n
  #compared: Promise<void> | undefined
  /** By the monotonic clock. */
  #chainAwayUntil = 0

  constructor(options: ExposureOptions, deps: ExposureDeps) {
    this.#options = options
    this.#deps = deps
    this.#losses = new KnownLosses(deps)
    this.#recounts = new Recounts({ ...deps, losses: this.#losses })
  }

  async start(): Promise<void> {
    const { payments } = this.#deps
    await this.#recounts.start()
    const { losses } = await payments.exposed('')
    const [lost, open] = await Promise.all([this.#losses.read(losses), payments.open()])
    for (const { peerId, payer } of lost.payers) this.#payers.meet(peerId, payer.toLowerCase())
    for (const { id, peerId, payer, amount } of open) {
      this.#payers.meet(peerId, payer.toLowerCase())
      this.#work.put(id, { payer: payer.toLowerCase(), amount, isClaimed: true })
    }
  }

  stop(): Promise<void> {
    return this.#recounts.stop()
  }

  /** Amount of unsettled work that this process knows of, in atomic units. */
  get total(): bigint {
    return this.#work.total
  }

  /** Predicts if this peer's next payment settles first (D45). The peer may still sign with another account. */
  settlesFirst(peerId: string, amount: bigint): boolean {
    const payer = this.#payers.of(peerId)
    return this.#isUnwelcome(peerId, payer) || this.#seemsTooMuch(payer, amount)
  }

  /** Predicts like `settlesFirst`, and asks the ledger where too much seems to be open. */
  async willSettleFirst(peerId: string, amount: bigint): Promise<boolean> {
    const payer = this.#payers.of(peerId)
    if (this.#isUnwelcome(peerId, payer)) return true
    return this.#seemsTooMuch(payer, amount) && this.#isTooMuch(await this.#stored(payer), payer, amount)
  }

  /**
   * Decides about a verified payment before it is claimed, and counts it from then on. `counted`: this call counted it.
   * With an RPC, the chain simulates this transfer before every run (D50).
   */
  async enter(
    claim: Claim,
    signal: AbortSignal,
    { settleFirst = false } = {},
  ): Promise<ExposureVerdict & { counted: boolean }> {
    const { amount } = claim.requirements
    const payer = payerOf(claim)
    // A counted payment was claimed before: the claim will report it.
    if (this.#work.has(claim.id)) return { kind: 'run', counted: false }
    const hasRoom = this.#payers.meet(claim.peerId, payer)
    const mustSettle = settleFirst || !hasRoom || this.#isDistrusted(payer)
    const seemsTooMuch = !mustSettle && this.#seemsTooMuch(payer, amount)
    const stored = seemsTooMuch ? await this.#stored(payer) : undefined
    // From here to `put` nothing is awaited: calls that wait for the ledger together count one another.
    if (mustSettle || (stored !== undefined && this.#isTooMuch(stored, payer, amount))) {
      const verdict = await this.#askChain(claim, undefined, signal)
      return { ...(verdict.kind === 'refuse' ? verdict : { kind: 'settle first' }), counted: false }
    }
    this.#work.put(claim.id, { payer, amount, isClaimed: false })
    using hold = new Hold(() => this.leave(claim.id))
    const verdict = await this.#askChain(claim, payer, signal)
    if (verdict.kind === 'run') hold.keep()
    return { ...verdict, counted: verdict.kind === 'run' }
  }

  /**
   * Decides about a payment that was just claimed and counted: true if it has to settle first. What other processes
   * claimed meanwhile is counted too.
   *
   * @param held what the payer was seen to hold, if that was asked for
   */
  async isOver(claim: Claim, counted: Exposed, held: bigint | undefined): Promise<boolean> {
    const payer = payerOf(claim)
    const isOver = (exposed: Exposed) => this.#exceeds(exposed) || (held !== undefined && exposed.payer > held)
    await this.#losses.readIfNew(counted.losses)
    // The sums of a claim may still have what has just ended.
    if (!isOver(counted) || !isOver(await this.#stored(payer))) return false
    this.leave(claim.id)
    return true
  }

  /** Stops counting a payment that was not claimed or has ended. */
  leave(id: Hex): void {
    if (this.#work.leave(id)) this.#payers.settled()
  }

  changed(change: LedgerChange): void {
    if (change.record === 'payment') this.#paymentChanged(change)
    else if (change.record === 'execution' && change.before !== undefined) this.#ran(change.before, change.after)
  }

  #paymentChanged({ id, from, to, before, after }: PaymentChange): void {
    if (from === undefined && to === 'authorized') this.#work.claim(id)
    else if (from === 'open') {
      // The hash that a facilitator names is only a claim: the payment counts until the ledger says `settled` (D50).
      if (to === 'authorized' || to === 'owed') return
      this.leave(id)
      this.#recounts.soon()
      const lost = to === 'unsettled' ? lossOf(after) : undefined
      if (lost !== undefined) this.#losses.add(lost)
    } else if (before !== undefined && isWorkDone(before)) {
      this.#recounts.soon()
      this.#losses.takeBack(lossOf(before))
      this.#countOwed(before)
    }
  }

  /** A settlement may be undone while its work runs: the work counts as unsettled from its end. */
  #ran(before: StoredPayment, after: StoredPayment | undefined): void {
    if (isWorkDone(before)) return
    if (after?.state === 'owed' && !this.#work.has(before.id)) {
      this.#recounts.soon()
      this.#countOwed(after)
    }
    const lost = lossOf(after)
    if (lost !== undefined) this.#losses.add(lost)
  }

  /** True for a peer or payer that settles first however little is open. */
  #isUnwelcome(peerId: string, payer: string | undefined): boolean {
    return this.#payers.isNoRoomFor(peerId) || (payer !== undefined && this.#isDistrusted(payer))
  }

  /** By what this process knows. It may not know of work elsewhere, or of the end of work. */
  #seemsTooMuch(payer: string | undefined, amount: bigint): boolean {
    const { total, size } = this.#work
    const owes = payer === undefined ? 0n : this.#work.of(payer)
    return this.#exceeds({ payer: owes + amount, total: total + this.#elsewhere + amount, payments: size + 1 })
  }

  #isTooMuch(stored: Exposed, payer: string | undefined, amount: bigint): boolean {
    const { entering, size } = this.#work
    const owes = stored.payer + (payer === undefined ? 0n : this.#work.enteringOf(payer))
    const all = { payer: owes + amount, total: stored.total + entering + amount, payments: stored.payments + 1 }
    const isTooMuch = this.#exceeds(all)
    if (!isTooMuch && size > 0) this.#compare()
    return isTooMuch
  }

  #exceeds({ payer, total, payments }: Pick<Exposed, 'payer' | 'total' | 'payments'>): boolean {
    const { perPayerMax, totalMax } = this.#options
    const lost = this.#losses.lately()
    return payments > OPEN_MAX || payer > perPayerMax || total + lost > totalMax
  }

  #isDistrusted(payer: string): boolean {
    return this.#losses.isDistrusted(payer)
  }

  /** What the ledger says of this payer and of all. */
  async #stored(payer = ''): Promise<Exposed> {
    const stored = await this.#deps.payments.exposed(payer)
    const elsewhere = stored.total - this.#work.claimed
    this.#elsewhere = elsewhere > 0n ? elsewhere : 0n
    await this.#losses.readIfNew(stored.losses)
    return stored
  }

  /** Forgets payments whose end was not reported, such as after a commit whose answer was lost. */
  #compare(): void {
    const { payments, logger } = this.#deps
    this.#compared ??= (async () => {
      const known = this.#work.claimedIds()
      const stored = new Set(await payments.exposedIds())
      for (const id of known) if (!stored.has(id)) this.leave(id)
    })()
      .catch((error: unknown) => logger.warn({ err: error }, 'could not compare the unsettled work with the ledger'))
      .finally(() => {
        this.#compared = undefined
      })
  }

  #countOwed(payment: StoredPayment): void {
    const { id, requirements } = payment
    this.#work.put(id, { payer: payerOf(payment), amount: requirements.amount, isClaimed: true })
  }

  /**
   * Simulates the transfer on chain. For an expensive payment, compares the balance with all open work of this payer.
   * Without an answer an expensive payment settles first. A cheap payment runs within the exposure limits.
   *
   * @param payer undefined: the payment settles first anyway
   */
  async #askChain(claim: Claim, payer: string | undefined, outer: AbortSignal): Promise<ExposureVerdict> {
    const { chain, logger } = this.#deps
    const isCheap = claim.requirements.amount < this.#options.checkFrom
    const unknown = { kind: isCheap ? 'run' : 'settle first' } as const
    if (chain === undefined || (isCheap && performance.now() < this.#chainAwayUntil)) return unknown
    const isAllAsked = !isCheap && payer !== undefined
    const owes = isAllAsked ? (await this.#stored(payer)).payer + this.#work.enteringOf(payer) : undefined
    const limit = AbortSignal.timeout(isCheap ? CHEAP_CHECK_TIMEOUT_MS : CHECK_TIMEOUT_MS)
    const signal = AbortSignal.any([outer, limit])
    try {
      const funds = await askFunds(claim, owes, chain, signal)
      return 'refusal' in funds ? { kind: 'refuse', reason: funds.refusal } : { kind: 'run', held: funds.held }
    } catch (error) {
      if (!outer.aborted) this.#chainAwayUntil = performance.now() + CHAIN_AWAY_MS
      logger.debug({ err: error, payment_id: claim.id }, `could not check the balance of a payer: ${reasonOf(error)}`)
      return unknown
    }
  }
}

function payerOf({ signed }: Pick<Claim, 'signed'>): string {
  return signed.authorization.from.toLowerCase()
}
