import type { Chain } from '../chain/chain.ts'
import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { parsePrice } from '../schema/amount.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Claim, PaymentProgress, Payments, StoredPayment } from '../store/payments.ts'
import { DISTRUST_MS, LOSERS_MAX, LOSS_SLOT_MS, type Loss, Losses } from './losses.ts'

export type ExposureOptions = {
  /**
   * Work that may be done for one payer, and for all, before its payments have settled: atomic units. What was lost
   * lately counts among that of all: accounts cost nothing, and each could take as much once.
   */
  perPayerMax: bigint
  totalMax: bigint
  /** From this amount on the chain is asked whether the payer has the money. */
  checkFrom: bigint
  /** Accounts that are not taken money from, and peers that are not served. */
  blocked: readonly string[]
}

export type ExposureDeps = {
  clock: Clock
  logger: Logger
  payments: Payments
  /** Undefined: nobody can say what a payer has. */
  chain: Pick<Chain, 'usdcBalance' | 'authorizationUse'> | undefined
}

/** `settle first`: the payment is settled before the agent runs, as with `--settle-first`. */
export type ExposureVerdict = { kind: 'run' | 'settle first' } | { kind: 'refuse'; reason: string }

/** Where the operator says nothing else. */
export const exposureLimits: ExposureOptions = {
  perPayerMax: parsePrice('10'),
  totalMax: parsePrice('100'),
  checkFrom: parsePrice('1'),
  blocked: [],
}

const CHECK_TIMEOUT_MS = 5_000

/**
 * How much work is out on promises (T6): a signed payment is worth nothing once its authorization is cancelled or its account
 * empty, and many can be signed against one balance.
 *
 * What is counted follows from the ledger: it is read at the start, and every change of it passes here.
 */
export class Exposure {
  readonly #options: ExposureOptions
  readonly #deps: ExposureDeps
  readonly #blocked: ReadonlySet<string>
  readonly #open = new Map<Hex, { payer: string; amount: bigint }>()
  readonly #byPayer = new Map<string, bigint>()
  readonly #losses: Losses
  #total = 0n

  constructor(options: ExposureOptions, deps: ExposureDeps) {
    this.#options = options
    this.#deps = deps
    this.#blocked = new Set(options.blocked.map((name) => name.toLowerCase()))
    for (const { id, payer, amount } of deps.payments.open()) this.#count(id, payer.toLowerCase(), amount)
    const stored = { slotMs: LOSS_SLOT_MS, payersMax: LOSERS_MAX }
    this.#losses = new Losses(deps.payments.lost(deps.clock.now() - DISTRUST_MS, stored))
  }

  /** Work that is not paid for yet, atomic units. */
  get total(): bigint {
    return this.#total
  }

  isBlocked(...names: string[]): boolean {
    return this.#blocked.size > 0 && names.some((name) => this.#blocked.has(name.toLowerCase()))
  }

  /** Decides over a verified payment before it is claimed, and counts it from then on. `counted`: by this very call. */
  async enter(claim: Claim, signal: AbortSignal): Promise<ExposureVerdict & { counted: boolean }> {
    const { amount } = claim.requirements
    const payer = claim.signed.authorization.from.toLowerCase()
    // One that is counted was claimed before: the claim will say so.
    if (this.#open.has(claim.id)) return { kind: 'run', counted: false }
    const { perPayerMax, totalMax, checkFrom } = this.#options
    const owes = this.#byPayer.get(payer) ?? 0n
    const now = this.#deps.clock.now()
    const isTooMuch = owes + amount > perPayerMax || this.#total + this.#losses.lately(now) + amount > totalMax
    if (isTooMuch || this.#losses.isDistrusted(payer, now)) return { kind: 'settle first', counted: false }
    this.#count(claim.id, payer, amount)
    if (amount < checkFrom) return { kind: 'run', counted: true }
    const verdict = await this.#askFunds(claim, payer, signal)
    if (verdict.kind !== 'run') this.leave(claim.id)
    return { ...verdict, counted: verdict.kind === 'run' }
  }

  /** It was not claimed, or has come to an end. */
  leave(id: Hex): void {
    const entry = this.#open.get(id)
    if (entry === undefined) return
    this.#open.delete(id)
    this.#total -= entry.amount
    const rest = (this.#byPayer.get(entry.payer) ?? 0n) - entry.amount
    if (rest > 0n) this.#byPayer.set(entry.payer, rest)
    else this.#byPayer.delete(entry.payer)
  }

  /** The ledger, which tells of every payment that ends. */
  watched(): Payments {
    const { payments } = this.#deps
    return {
      ...payments,
      deliver: async (progress, exchange, now) => {
        await payments.deliver(progress, exchange, now)
        this.#follow(progress)
      },
      save: async (progress, now) => {
        await payments.save(progress, now)
        this.#follow(progress)
      },
      reopen: async (progress, now) => {
        const lost = lossOf(payments.get(progress.id))
        if (!(await payments.reopen(progress, now))) return false
        if (lost === undefined) return true
        this.#losses.takeBack(lost)
        this.#count(progress.id, lost.payer.toLowerCase(), lost.amount)
        return true
      },
    }
  }

  #follow({ id, state, txHash }: PaymentProgress): void {
    // What the facilitator has a transaction for is as good as paid; should the chain disagree, it counts as lost.
    if (state === 'authorized' || (state === 'owed' && txHash === undefined)) return
    this.leave(id)
    const lost = state === 'unsettled' ? lossOf(this.#deps.payments.get(id)) : undefined
    if (lost !== undefined) this.#losses.add(lost)
  }

  #count(id: Hex, payer: string, amount: bigint): void {
    this.#open.set(id, { payer, amount })
    this.#byPayer.set(payer, (this.#byPayer.get(payer) ?? 0n) + amount)
    this.#total += amount
  }

  /** Whether the account holds what is open of it, this payment included. Where nobody can say, the payment goes first. */
  async #askFunds(claim: Claim, payer: string, outer: AbortSignal): Promise<ExposureVerdict> {
    const { chain, logger } = this.#deps
    if (chain === undefined) return { kind: 'settle first' }
    const { authorization } = claim.signed
    const signal = AbortSignal.any([outer, AbortSignal.timeout(CHECK_TIMEOUT_MS)])
    try {
      const [balance, use] = await Promise.all([
        chain.usdcBalance(authorization.from, signal),
        chain.authorizationUse(claim.requirements.asset, authorization.from, authorization.nonce, signal),
      ])
      if (use.state !== 'unused')
        return { kind: 'refuse', reason: 'the chain shows this authorization as spent or cancelled' }
      if (balance >= (this.#byPayer.get(payer) ?? 0n)) return { kind: 'run' }
      const reason = 'the account of the payer does not hold what it has signed for; nothing was charged'
      return { kind: 'refuse', reason }
    } catch (error) {
      logger.debug({ err: error, payment_id: claim.id }, `what a payer has is not known: ${reasonOf(error)}`)
      return { kind: 'settle first' }
    }
  }
}

/** Work that was done and is given up; what was to be settled first never ran. */
function lossOf(payment: StoredPayment | undefined): Loss | undefined {
  if (payment?.state !== 'unsettled' || payment.task !== undefined) return undefined
  const { signed, requirements, updatedAt: at } = payment
  return { payer: signed.authorization.from, amount: requirements.amount, at }
}
