import type { UnixMs } from '../lib/clock.ts'
import type { StoredLosses } from '../store/losses.ts'

/** A payer whose payment was lost settles first for so long. */
export const DISTRUST_MS = 7 * 24 * 60 * 60 * 1000
/** For so long what was lost counts among what may be. */
export const LATELY_MS = 24 * 60 * 60 * 1000
/** Losses of this time are one sum: how many they are costs nothing. */
export const LOSS_SLOT_MS = 5 * 60 * 1000
/** Payers that are remembered, the latest ones. */
export const LOSERS_MAX = 10_000

/** Work that was never paid for. */
export type Loss = {
  payer: string
  amount: bigint
  at: UnixMs
  /** By the payer's own fault: the seller's own trouble makes nobody settle first (D45). */
  blamed: boolean
}

/**
 * What was lost lately, and by whose payments.
 *
 * The sum hangs on no list: whoever pays with thousands of worthless accounts cannot push the first of them out of it. Only
 * whom to distrust is a list, and an account that has left it is worth no more than a new one.
 */
export class Losses {
  readonly #lately = new Map<number, bigint>()
  #sum = 0n
  /** The latest ones last. */
  readonly #payers = new Map<string, { count: number; at: UnixMs }>()

  constructor({ slots, payers }: StoredLosses) {
    for (const { at, amount } of slots) this.#count(at, amount)
    for (const { payer, count, at } of payers) this.#payers.set(payer.toLowerCase(), { count, at })
  }

  /** Of the last day, atomic units. */
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
    this.#payers.delete(key)
    this.#payers.set(key, { count, at })
    if (this.#payers.size > LOSERS_MAX) this.#payers.delete(this.#payers.keys().next().value!)
  }

  /** It is no loss any more: it is tried again, or was paid after all. */
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
