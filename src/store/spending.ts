import { one, type Query, run, together } from './query.ts'

/** The limits of a purchase: the most that may be spent or reserved under each, in atomic units. */
export type SpendingLimits = { [name in LimitName]?: bigint | undefined }
export type LimitName = 'day' | 'month' | 'seller' | 'token' | 'token day'
/** The first limit that a purchase exceeds. */
export type LimitExceeded = { over: LimitName; spent: bigint; max: bigint }

/** Who spends, when, and at which seller. */
export type Expense = { day: string; sellerId: string; tokenId: string | undefined }

/** The sums that a purchase belongs to, as they were read. */
type Sums = ReadonlyMap<LimitName, bigint>
export type Place = { name: LimitName; period: string; scope: string }

const ADD = `
  INSERT INTO spending (period, scope, amount) VALUES (?, ?, ?)
  ON CONFLICT (period, scope) DO UPDATE SET amount = spending.amount + excluded.amount`
/** For an amount that alone is within the limit. */
const ADD_WITHIN = `${ADD} WHERE spending.amount + excluded.amount <= ?`
const ONE = 'SELECT amount FROM spending WHERE period = ? AND scope = ?'
const NAMES = ['day', 'month', 'seller', 'token day', 'token'] as const satisfies readonly LimitName[]

/**
 * Every sum that a purchase belongs to, as columns of a row. Their places take `sumKeys`.
 *
 * Subqueries: SQLite takes twice as long for an `OR` of the keys.
 */
export const SUM_COLUMNS = NAMES.map((name) => `(${ONE}) AS "${name}"`).join(', ')
export type SumColumns = Record<LimitName, number | null>
const NO_KEY = ['', ''] as const

/**
 * Every sum that a purchase belongs to. A release subtracts from the same sums.
 *
 * Always in this order: two changes that wait for each other's rows would both be stuck.
 */
export function placesOf({ day, sellerId, tokenId }: Expense): Place[] {
  const token = `token ${tokenId}`
  return [
    { name: 'day', period: day, scope: '' },
    { name: 'month', period: monthOf(day), scope: '' },
    { name: 'seller', period: day, scope: `seller ${partyOf(sellerId)}` },
    ...(tokenId === undefined
      ? []
      : ([
          { name: 'token day', period: day, scope: token },
          { name: 'token', period: '', scope: token },
        ] as const)),
  ]
}

/**
 * A seller over HTTP is named by its origin and the account that it is paid by. It chooses the account at each purchase, so to
 * the budget for one seller only the origin counts.
 */
function partyOf(sellerId: string): string {
  return sellerId.includes('://') ? sellerId.split('#', 1)[0]! : sellerId
}

export function sumKeys(spent: Expense): string[] {
  const places = placesOf(spent)
  return NAMES.flatMap((_, index) => {
    const place = places[index]
    return place === undefined ? NO_KEY : [place.period, place.scope]
  })
}

export function sumsIn(row: SumColumns): Sums {
  return new Map(NAMES.map((name) => [name, BigInt(row[name] ?? 0)]))
}

/** The first limit that an amount would exceed beside these sums. Undefined: it exceeds none. */
export function exceeded(
  spent: Expense,
  amount: bigint,
  { limits, sums }: { limits: SpendingLimits; sums: Sums },
): LimitExceeded | undefined {
  const places = placesOf(spent).map((place) => ({ place }))
  return firstExceeded(places, amount, { limits, sumAt: (at) => sums.get(places[at]!.place.name) ?? 0n })
}

/** The same for places whose sums are at hand. `sumAt`: the sum of a place by its index. */
export function firstExceeded(
  places: readonly { place: Place }[],
  amount: bigint,
  { limits, sumAt }: { limits: SpendingLimits; sumAt(at: number): bigint },
): LimitExceeded | undefined {
  for (const [at, { place }] of places.entries()) {
    const max = limits[place.name]
    if (max === undefined) continue
    const sum = sumAt(at)
    if (sum + amount > max) return { over: place.name, spent: sum, max }
  }
  return undefined
}

/** The same list, in which expenses that are alike are one object. A turn has few that differ. */
export function alike(expenses: readonly Expense[]): Expense[] {
  const known: Expense[] = []
  return expenses.map((spent) => {
    const before = known.find(
      ({ day, sellerId, tokenId }) => sellerId === spent.sellerId && tokenId === spent.tokenId && day === spent.day,
    )
    if (before === undefined) known.push(spent)
    return before ?? spent
  })
}

/** Sorts expenses. Changes that wait for each other's sums take them in this order. */
export function byExpense(a: Expense, b: Expense): number {
  const [first, second] = [a, b].map(({ day, sellerId, tokenId }) => `${day} ${sellerId} ${tokenId}`)
  return first! < second! ? -1 : 1
}

/** Adds an amount to every sum that it belongs to. A negative amount subtracts. */
export function addSpending(spent: Expense, amount: bigint): Query<number[]> {
  return together(...placesOf(spent).map(({ period, scope }) => run(ADD, period, scope, amount)))
}

/**
 * Adds an amount to every sum whose limit it does not exceed. The sums may have changed since they were read.
 *
 * @returns false if a limit is exceeded. The change must then throw, so that nothing is added.
 */
export function addWithin(spent: Expense, amount: bigint, limits: SpendingLimits): Query<boolean> {
  return addEach(placesOf(spent).map((place) => ({ place, amount, max: limits[place.name] })))
}

/** An amount for a sum. The sum stays within `max`. Undefined: it has no limit. */
type Addition = { place: Place; amount: bigint; max: bigint | undefined }

/** Like `addWithin`, for sums of several purchases. */
export function addEach(additions: readonly Addition[]): Query<boolean> {
  const changes = additions.map(({ place: { period, scope }, amount, max }) =>
    max === undefined ? run(ADD, period, scope, amount) : run(ADD_WITHIN, period, scope, amount, max),
  )
  return together(...changes).map((added) => added.every((count) => count === 1))
}

/** The sum of a UTC day, `2026-11-21`, or of a month, `2026-11`. */
export function spentIn(period: string): Query<bigint> {
  return sumAt({ period, scope: '' })
}

function sumAt({ period, scope }: Pick<Place, 'period' | 'scope'>): Query<bigint> {
  return one<{ amount: number }>(ONE, period, scope).map((row) => BigInt(row?.amount ?? 0))
}

function monthOf(day: string): string {
  return day.slice(0, 7)
}
