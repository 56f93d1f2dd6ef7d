import type { Hex } from '../schema/primitives.ts'

type Work = { payer: string; amount: bigint; isClaimed: boolean }

/** The payments of this process whose work has not settled, as far as it was told: sums by payer and in all. */
export class OpenWork {
  readonly #open = new Map<Hex, Work>()
  readonly #byPayer = new Map<string, bigint>()
  /** The sums of payments that are not in the ledger yet. */
  readonly #enteringByPayer = new Map<string, bigint>()
  #total = 0n
  #entering = 0n

  get size(): number {
    return this.#open.size
  }

  get total(): bigint {
    return this.#total
  }

  /** Work that is in the ledger. */
  get claimed(): bigint {
    return this.#total - this.#entering
  }

  /** Work that is not in the ledger yet. */
  get entering(): bigint {
    return this.#entering
  }

  has(id: Hex): boolean {
    return this.#open.has(id)
  }

  of(payer: string): bigint {
    return this.#byPayer.get(payer) ?? 0n
  }

  enteringOf(payer: string): bigint {
    return this.#enteringByPayer.get(payer) ?? 0n
  }

  claimedIds(): Hex[] {
    return [...this.#open].flatMap(([id, { isClaimed }]) => (isClaimed ? [id] : []))
  }

  put(id: Hex, work: Work): void {
    this.leave(id)
    this.#open.set(id, work)
    this.#total += work.amount
    add(this.#byPayer, work.payer, work.amount)
    if (!work.isClaimed) this.#enter(work.payer, work.amount)
  }

  claim(id: Hex): void {
    const work = this.#open.get(id)
    if (work === undefined || work.isClaimed) return
    work.isClaimed = true
    this.#enter(work.payer, -work.amount)
  }

  /** @returns true if this was the last open work of its payer */
  leave(id: Hex): boolean {
    const work = this.#open.get(id)
    if (work === undefined) return false
    this.#open.delete(id)
    this.#total -= work.amount
    if (!work.isClaimed) this.#enter(work.payer, -work.amount)
    return add(this.#byPayer, work.payer, -work.amount) <= 0n
  }

  #enter(payer: string, amount: bigint): void {
    this.#entering += amount
    add(this.#enteringByPayer, payer, amount)
  }
}

function add(sums: Map<string, bigint>, key: string, amount: bigint): bigint {
  const sum = (sums.get(key) ?? 0n) + amount
  if (sum > 0n) sums.set(key, sum)
  else sums.delete(key)
  return sum
}
