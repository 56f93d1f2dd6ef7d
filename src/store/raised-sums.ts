import type { Query } from './query.ts'
import {
  addEach,
  type Expense,
  exceeded,
  type LimitExceeded,
  type Place,
  placesOf,
  type SpendingLimits,
  type SumColumns,
  type Sums,
} from './spending.ts'

type Sum = { place: Place; amount: bigint; raised: bigint; max: bigint | undefined }

/** Sums of spending as they were read, while purchases raise them one after the other. Each is written once. */
export class RaisedSums {
  readonly #sums = new Map<string, Sum>()

  /** Takes in the sums that an expense belongs to, as they are stored. */
  read(spent: Expense, row: SumColumns): void {
    for (const place of placesOf(spent)) {
      const key = keyOf(place)
      if (this.#sums.has(key)) continue
      this.#sums.set(key, { place, amount: BigInt(row[place.name] ?? 0), raised: 0n, max: undefined })
    }
  }

  /** The first limit that an amount would exceed after what was raised. Undefined: it exceeds none. */
  exceeded(spent: Expense, amount: bigint, limits: SpendingLimits): LimitExceeded | undefined {
    const sums: Sums = new Map(this.#of(spent).map(({ place, amount, raised }) => [place.name, amount + raised]))
    return exceeded(spent, amount, { limits, sums })
  }

  raise(spent: Expense, amount: bigint, limits: SpendingLimits): void {
    for (const sum of this.#of(spent)) {
      const max = limits[sum.place.name]
      sum.raised += amount
      if (max !== undefined && (sum.max === undefined || max < sum.max)) sum.max = max
    }
  }

  /**
   * Adds what was raised, within the limits, whatever was added since the sums were read.
   *
   * @returns false if a limit is exceeded. The change must then throw, so that nothing is added.
   */
  write(): Query<boolean> {
    const raised = [...this.#sums.values()].filter(({ raised }) => raised > 0n)
    return addEach(raised.map(({ place, raised: amount, max }) => ({ place, amount, max })))
  }

  #of(spent: Expense): Sum[] {
    return placesOf(spent).map((place) => this.#sums.get(keyOf(place))!)
  }
}

const keyOf = ({ period, scope }: Place) => `${period} ${scope}`
