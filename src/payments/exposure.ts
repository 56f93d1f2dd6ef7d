import type { Chain } from '../chain/chain.ts'
import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { parsePrice } from '../schema/amount.ts'
import type { Hex } from '../schema/primitives.ts'
import type { LedgerChange, PaymentChange } from '../store/ledger-changes.ts'
import { isWorkDone } from '../store/payment-row.ts'
import type { Claim, Payments, StoredPayment } from '../store/payments.ts'
import { LatestPayers } from './latest-payers.ts'
import { DISTRUST_MS, LOSERS_MAX, LOSS_SLOT_MS, type Loss, Losses } from './losses.ts'

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
  payments: Pick<Payments, 'open' | 'lost'>
  /** Undefined: balances are unknown. */
  chain: Pick<Chain, 'usdcBalance' | 'authorizationUse' | 'simulateTransfer'> | undefined
}

/** `settle first`: the payment is settled before the agent runs, as with `--settle-first`. */
type ExposureVerdict = { kind: 'run' | 'settle first' } | { kind: 'refuse'; reason: string }

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
 * Counts the work done for payments that have not settled (T6). A signed payment is worthless once its authorization is
 * canceled or its account is empty, and a payer can sign many against one balance. Loads what is stored at its start,
 * before the ledger changes, and follows the changes from then on.
 */
export class Exposure implements Service {
  readonly name = 'exposure'
  readonly #options: ExposureOptions
  readonly #deps: ExposureDeps
  readonly #open = new Map<Hex, { payer: string; amount: bigint }>()
  readonly #byPayer = new Map<string, bigint>()
  #losses = new Losses({ slots: [], payers: [] })
  /** Predicts what a peer hears before it signs. The limits themselves count by account. */
  readonly #payers = new LatestPayers({
    peersMax: PEERS_MAX,
    perPayerMax: PEERS_PER_PAYER_MAX,
    owes: (payer) => this.#byPayer.has(payer),
  })
  #total = 0n
  /** By the monotonic clock. */
  #chainAwayUntil = 0

  constructor(options: ExposureOptions, deps: ExposureDeps) {
    this.#options = options
    this.#deps = deps
  }

  async start(): Promise<void> {
    const { payments, clock } = this.#deps
    const stored = { slotMs: LOSS_SLOT_MS, payersMax: LOSERS_MAX }
    const [lost, open] = await Promise.all([payments.lost(clock.now() - DISTRUST_MS, stored), payments.open()])
    this.#losses = new Losses(lost)
    for (const { peerId, payer } of lost.payers) this.#payers.meet(peerId, payer.toLowerCase())
    for (const { id, peerId, payer, amount } of open) {
      this.#payers.meet(peerId, payer.toLowerCase())
      this.#count(id, payer.toLowerCase(), amount)
    }
  }

  async stop(): Promise<void> {}

  /** Amount of unsettled work, in atomic units. */
  get total(): bigint {
    return this.#total
  }

  /** Predicts if this peer's next payment settles first (D45). The peer may still sign with another account. */
  settlesFirst(peerId: string, amount: bigint): boolean {
    const payer = this.#payers.of(peerId)
    if (this.#payers.isNoRoomFor(peerId)) return true
    return this.#isTooMuch(payer, amount) || (payer !== undefined && this.#isDistrusted(payer))
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
    const payer = claim.signed.authorization.from.toLowerCase()
    // A counted payment was claimed before: the claim will report it.
    if (this.#open.has(claim.id)) return { kind: 'run', counted: false }
    const hasRoom = this.#payers.meet(claim.peerId, payer)
    if (settleFirst || !hasRoom || this.#isTooMuch(payer, amount) || this.#isDistrusted(payer)) {
      const verdict = await this.#askChain(claim, undefined, signal)
      return { ...(verdict.kind === 'refuse' ? verdict : { kind: 'settle first' }), counted: false }
    }
    this.#count(claim.id, payer, amount)
    const verdict = await this.#askChain(claim, payer, signal)
    if (verdict.kind !== 'run') this.leave(claim.id)
    return { ...verdict, counted: verdict.kind === 'run' }
  }

  /** Stops counting a payment that was not claimed or has ended. */
  leave(id: Hex): void {
    const entry = this.#open.get(id)
    if (entry === undefined) return
    this.#open.delete(id)
    this.#total -= entry.amount
    const rest = (this.#byPayer.get(entry.payer) ?? 0n) - entry.amount
    if (rest > 0n) this.#byPayer.set(entry.payer, rest)
    else {
      this.#byPayer.delete(entry.payer)
      this.#payers.settled()
    }
  }

  changed(change: LedgerChange): void {
    if (change.record === 'payment') this.#paymentChanged(change)
    else if (change.record === 'execution' && change.before !== undefined) this.#ran(change.before, change.after)
  }

  #paymentChanged({ id, from, to, before, after }: PaymentChange): void {
    if (from === 'open') {
      // The hash that a facilitator names is only a claim: the payment counts until the ledger says `settled` (D50).
      if (to === 'authorized' || to === 'owed') return
      this.leave(id)
      const lost = to === 'unsettled' ? lossOf(after) : undefined
      if (lost !== undefined) this.#losses.add(lost)
    } else if (before !== undefined && isWorkDone(before)) {
      const lost = lossOf(before)
      if (lost !== undefined) this.#losses.takeBack(lost)
      this.#countOwed(before)
    }
  }

  /** A settlement may be undone while its work runs: the work counts as unsettled from its end. */
  #ran(before: StoredPayment, after: StoredPayment | undefined): void {
    if (isWorkDone(before)) return
    if (after?.state === 'owed' && !this.#open.has(before.id)) this.#countOwed(after)
    const lost = lossOf(after)
    if (lost !== undefined) this.#losses.add(lost)
  }

  #isTooMuch(payer: string | undefined, amount: bigint): boolean {
    const { perPayerMax, totalMax } = this.#options
    const owes = (payer === undefined ? undefined : this.#byPayer.get(payer)) ?? 0n
    const lost = this.#losses.lately(this.#deps.clock.now())
    if (this.#open.size >= OPEN_MAX) return true
    return owes + amount > perPayerMax || this.#total + lost + amount > totalMax
  }

  #isDistrusted(payer: string): boolean {
    return this.#losses.isDistrusted(payer, this.#deps.clock.now())
  }

  #countOwed({ id, signed, requirements }: StoredPayment): void {
    this.#count(id, signed.authorization.from.toLowerCase(), requirements.amount)
  }

  #count(id: Hex, payer: string, amount: bigint): void {
    this.#open.set(id, { payer, amount })
    this.#byPayer.set(payer, (this.#byPayer.get(payer) ?? 0n) + amount)
    this.#total += amount
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
    const limit = AbortSignal.timeout(isCheap ? CHEAP_CHECK_TIMEOUT_MS : CHECK_TIMEOUT_MS)
    const signal = AbortSignal.any([outer, limit])
    const owes = isCheap || payer === undefined ? undefined : this.#byPayer.get(payer)
    try {
      const reason = await refusalOf(claim, owes, chain, signal)
      return reason === undefined ? { kind: 'run' } : { kind: 'refuse', reason }
    } catch (error) {
      if (!outer.aborted) this.#chainAwayUntil = performance.now() + CHAIN_AWAY_MS
      logger.debug({ err: error, payment_id: claim.id }, `could not check the balance of a payer: ${reasonOf(error)}`)
      return unknown
    }
  }
}

/** The loss of a payment whose work was done and whose settlement was given up. */
function lossOf(payment: StoredPayment | undefined): Loss | undefined {
  if (payment?.state !== 'unsettled' || !isWorkDone(payment)) return undefined
  const { signed, requirements, updatedAt: at, blamed } = payment
  return { payer: signed.authorization.from, amount: requirements.amount, at, blamed }
}

/**
 * Why the chain would refuse this payment; undefined if it would accept it. @throws ChainError
 * @param owes what the account must hold for all open work. Undefined: this payment alone, and only if the transfer
 * cannot be simulated.
 */
async function refusalOf(
  { signed, requirements: { asset, amount } }: Claim,
  owes: bigint | undefined,
  chain: NonNullable<ExposureDeps['chain']>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { from, nonce } = signed.authorization
  const balanceOf = () => chain.usdcBalance(from, signal)
  const [simulated, balance] = await Promise.all([
    chain.simulateTransfer(asset, signed, signal),
    owes === undefined ? undefined : balanceOf(),
  ])
  if (simulated.kind === 'refused') return `the chain refuses this transfer: ${simulated.reason}; nothing was charged`
  let held = balance
  if (simulated.kind === 'untimely') {
    // The newest block is older than the window, so the transfer cannot be simulated. Nonce and balance can be read.
    const use = await chain.authorizationUse(asset, from, nonce, signal)
    if (use.state !== 'unused') return 'the chain shows this authorization as spent or canceled'
    held ??= await balanceOf()
  }
  if (held === undefined || held >= (owes ?? amount)) return undefined
  return 'the account of the payer holds less than it has signed for; nothing was charged'
}
