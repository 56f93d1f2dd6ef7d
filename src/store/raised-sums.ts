import type { Query } from './query.ts'
import {
  addEach,
  type Expense,
  firstExceeded,
  type LimitExceeded,
  type Place,
  placesOf,
  type SpendingLimits,
  type SumColumns,
} from './spending.ts'

type Sum = { place: Place; amount: bigint; raised: bigint; max: bigint | undefined }

/**
 * Sums of spending as they were read, while purchases raise them one after the other. Each is written once.
 *
 * Expenses are told apart as objects: those that are alike are one object (`alike`).
 */
export class RaisedSums {
  readonly #sums = new Map<string, Sum>()
  readonly #of = new Map<Expense, Sum[]>()

  /** Takes in the sums that an expense belongs to, as they are stored. */
  read(spent: Expense, row: SumColumns): void {
    const own = placesOf(spent).map((place) => {
      const key = `${place.period} ${place.scope}`
      const sum = this.#sums.get(key) ?? { place, amount: BigInt(row[place.name] ?? 0), raised: 0n, max: undefined }
      this.#sums.set(key, sum)
      return sum
    })
    this.#of.set(spent, own)
  }

  /** The first limit that an amount would exceed after what was raised. Undefined: it exceeds none. */
  exceeded(spent: Expense, amount: bigint, limits: SpendingLimits): LimitExceeded | undefined {
    const own = this.#of.get(spent)!
    return firstExceeded(own, amount, { limits, sumAt: (at) => own[at]!.amount + own[at]!.raised })
  }

  raise(spent: Expense, amount: bigint, limits: SpendingLimits): void {
    for (const sum of this.#of.get(spent)!) {
      const max = limits[sum.place.name]
      sum.raised += amount
      if (max !== undefined && (sum.max === undefined || max < sum.max)) sum.max = max
    }
  }

  /**
   * Adds what was raised to the stored sums, within the limits. The sums may have changed since they were read.
   *
   * @returns false if a limit is exceeded. The change must then throw, so that nothing is added.
   */
  write(): Query<boolean> {
    const raised = [...this.#sums.values()].filter(({ raised }) => raised > 0n)
    return addEach(raised.map(({ place, raised: amount, max }) => ({ place, amount, max })))
  }
}
