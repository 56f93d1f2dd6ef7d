import { BoundedMap } from '../lib/bounded-map.ts'
import type { UnixMs } from '../lib/clock.ts'
import type { StoredLosses } from '../store/losses.ts'
import { isWorkDone } from '../store/payment-row.ts'
import type { StoredPayment } from '../store/payments.ts'

/** After a lost payment, its payer settles first for this long. */
export const DISTRUST_MS = 7 * 24 * 60 * 60 * 1000
/** Losses count toward the total limit for this long. */
const LATELY_MS = 24 * 60 * 60 * 1000
/** Losses within this time are stored as one sum, so their number costs no memory. */
export const LOSS_SLOT_MS = 5 * 60 * 1000
/** Payers remembered after a loss. Beyond it the oldest is dropped. */
export const LOSERS_MAX = 10_000

export type Loss = {
  payer: string
  amount: bigint
  at: UnixMs
  /** True if the payer caused the loss. Failures on the seller's side do not make payers settle first (D45). */
  blamed: boolean
}

/**
 * Recent losses, and the payers that caused them. The sum depends on no list, so worthless accounts cannot push older
 * losses out of it. An account that was dropped from the distrusted payers is treated like a new account.
 */
export class Losses {
  readonly #lately = new Map<number, bigint>()
  #sum = 0n
  /** Latest last. */
  readonly #payers = new BoundedMap<string, { count: number; at: UnixMs }>(LOSERS_MAX)

  constructor({ slots, payers }: StoredLosses) {
    for (const { at, amount } of slots) this.#count(at, amount)
    for (const { payer, count, at } of payers) this.#payers.set(payer.toLowerCase(), { count, at })
  }

  /** Losses of the last 24 h, in atomic units. */
  lately(now: UnixMs): bigint {
    for (const [slot, amount] of this.#lately) {
      if ((slot + 1) * LOSS_SLOT_MS + LATELY_MS > now) continue
      this.#lately.delete(slot)
      this.#sum -= amount
    }
    return this.#sum
  }

  isDistrusted(payer: string, now: UnixMs): boolean {
    const known = this.#payers.get(payer.toLowerCase())
    return known !== undefined && known.at + DISTRUST_MS > now
  }

  add({ payer, amount, at, blamed }: Loss): void {
    this.#count(at, amount)
    if (!blamed) return
    const key = payer.toLowerCase()
    const count = (this.#payers.get(key)?.count ?? 0) + 1
    this.#payers.set(key, { count, at })
  }

  /** Removes a loss whose payment is tried again or was paid. */
  takeBack({ payer, amount, at, blamed }: Loss): void {
    const slot = slotOf(at)
    const rest = (this.#lately.get(slot) ?? 0n) - amount
    if (rest >= 0n) {
      this.#lately.set(slot, rest)
      this.#sum -= amount
    }
    const key = payer.toLowerCase()
    const known = blamed ? this.#payers.get(key) : undefined
    if (known === undefined) return
    if (known.count > 1) known.count--
    else this.#payers.delete(key)
  }

  #count(at: UnixMs, amount: bigint): void {
    const slot = slotOf(at)
    this.#lately.set(slot, (this.#lately.get(slot) ?? 0n) + amount)
    this.#sum += amount
  }
}

function slotOf(at: UnixMs): number {
  return Math.floor(at / LOSS_SLOT_MS)
}

/** The loss of a payment whose work was done and whose settlement was given up. */
export function lossOf(payment: StoredPayment | undefined): Loss | undefined {
  if (payment?.state !== 'unsettled' || !isWorkDone(payment)) return undefined
  const { signed, requirements, updatedAt: at, blamed } = payment
  return { payer: signed.authorization.from, amount: requirements.amount, at, blamed }
}
