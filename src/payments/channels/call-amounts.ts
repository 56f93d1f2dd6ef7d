/** Changes kept beside the base. Each change copies only these. Beyond the maximum all amounts are copied into a new base. */
const CHANGES_MAX = 16

/**
 * What each call may cost, by its id. An immutable map: a change returns a new one.
 *
 * A change copies at most `CHANGES_MAX` entries and updates `sum`, so its time does not grow with the number of calls.
 */
export class CallAmounts implements Iterable<[call: string, amount: bigint]> {
  static readonly none = new CallAmounts(new Map(), new Map(), { size: 0, sum: 0n })
  readonly size: number
  /** Atomic units. */
  readonly sum: bigint
  readonly #base: ReadonlyMap<string, bigint>
  /** What differs from the base. Undefined: the call was removed. */
  readonly #changes: ReadonlyMap<string, bigint | undefined>

  private constructor(
    base: ReadonlyMap<string, bigint>,
    changes: ReadonlyMap<string, bigint | undefined>,
    { size, sum }: { size: number; sum: bigint },
  ) {
    this.#base = base
    this.#changes = changes
    this.size = size
    this.sum = sum
  }

  static of(amounts: Iterable<readonly [call: string, amount: bigint]>): CallAmounts {
    const base = new Map(amounts)
    let sum = 0n
    for (const amount of base.values()) sum += amount
    return new CallAmounts(base, new Map(), { size: base.size, sum })
  }

  get(call: string): bigint | undefined {
    return this.#changes.has(call) ? this.#changes.get(call) : this.#base.get(call)
  }

  has(call: string): boolean {
    return this.get(call) !== undefined
  }

  with(call: string, amount: bigint): CallAmounts {
    const before = this.get(call)
    const size = before === undefined ? this.size + 1 : this.size
    return this.#changed(call, amount, { size, sum: this.sum - (before ?? 0n) + amount })
  }

  /** Returns itself if the call is not there. */
  without(call: string): CallAmounts {
    const before = this.get(call)
    if (before === undefined) return this
    return this.#changed(call, undefined, { size: this.size - 1, sum: this.sum - before })
  }

  *[Symbol.iterator](): IterableIterator<[call: string, amount: bigint]> {
    for (const entry of this.#base) if (!this.#changes.has(entry[0])) yield entry
    for (const [call, amount] of this.#changes) if (amount !== undefined) yield [call, amount]
  }

  #changed(call: string, amount: bigint | undefined, sums: { size: number; sum: bigint }): CallAmounts {
    const changes = new Map(this.#changes).set(call, amount)
    if (changes.size <= CHANGES_MAX) return new CallAmounts(this.#base, changes, sums)
    return CallAmounts.of(new CallAmounts(this.#base, changes, sums))
  }
}
