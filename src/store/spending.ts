import { all, one, type Query, run, together } from './query.ts'

/** The limits of a purchase: the most that may be spent or reserved under each, in atomic units. */
export type SpendingLimits = { [name in LimitName]?: bigint | undefined }
export type LimitName = 'day' | 'month' | 'seller' | 'token' | 'token day'
/** The first limit that a purchase exceeds. */
export type LimitExceeded = { over: LimitName; spent: bigint; max: bigint }

/** Who spends, when, and at which seller. */
export type Expense = { day: string; sellerId: string; tokenId: string | undefined }

/** Sums by period and scope, as they were read. */
type Sums = ReadonlyMap<string, bigint>
type Place = { name: LimitName; period: string; scope: string }
type SumRow = { period: string; scope: string; amount: number }

const ADD = `
  INSERT INTO spending (period, scope, amount) VALUES (?, ?, ?)
  ON CONFLICT (period, scope) DO UPDATE SET amount = spending.amount + excluded.amount`
/** For an amount that alone is within the limit. */
const ADD_WITHIN = `${ADD} WHERE spending.amount + excluded.amount <= ?`
const ONE = 'SELECT amount FROM spending WHERE period = ? AND scope = ?'

/**
 * Every sum that a purchase belongs to. A release subtracts from the same sums.
 *
 * Always in this order: two changes that wait for each other's rows would both be stuck.
 */
function placesOf({ day, sellerId, tokenId }: Expense): Place[] {
  const token = `token ${tokenId}`
  return [
    { name: 'day', period: day, scope: '' },
    { name: 'month', period: monthOf(day), scope: '' },
    { name: 'seller', period: day, scope: `seller ${sellerId}` },
    ...(tokenId === undefined
      ? []
      : ([
          { name: 'token day', period: day, scope: token },
          { name: 'token', period: '', scope: token },
        ] as const)),
  ]
}

/** Every sum that a purchase belongs to, read in one statement. */
export function sumsFor(spent: Expense): Query<Sums> {
  const places = placesOf(spent)
  const where = places.map(() => '(period = ? AND scope = ?)').join(' OR ')
  const named = places.flatMap(({ period, scope }) => [period, scope])
  const found = all<SumRow>(`SELECT period, scope, amount FROM spending WHERE ${where}`, ...named)
  return found.map((rows) => new Map(rows.map((row) => [keyOf(row), BigInt(row.amount)])))
}

/** The first limit that an amount would exceed beside these sums. Undefined: it exceeds none. */
export function exceeded(
  spent: Expense,
  amount: bigint,
  { limits, sums }: { limits: SpendingLimits; sums: Sums },
): LimitExceeded | undefined {
  for (const place of placesOf(spent)) {
    const max = limits[place.name]
    if (max === undefined) continue
    const sum = sums.get(keyOf(place)) ?? 0n
    if (sum + amount > max) return { over: place.name, spent: sum, max }
  }
  return undefined
}

/** Adds an amount to every sum that it belongs to. A negative amount subtracts. */
export function addSpending(spent: Expense, amount: bigint): Query<number[]> {
  return together(...placesOf(spent).map(({ period, scope }) => run(ADD, period, scope, amount)))
}

/**
 * Adds an amount to every sum whose limit it does not exceed, whatever was added since the sums were read.
 *
 * @returns false if a limit is exceeded. The change must then throw, so that nothing is added.
 */
export function addWithin(spent: Expense, amount: bigint, limits: SpendingLimits): Query<boolean> {
  const additions = placesOf(spent).map(({ name, period, scope }) => {
    const max = limits[name]
    return max === undefined ? run(ADD, period, scope, amount) : run(ADD_WITHIN, period, scope, amount, max)
  })
  return together(...additions).map((added) => added.every((changes) => changes === 1))
}

/** The sum of a UTC day, `2026-11-21`, or of a month, `2026-11`. */
export function spentIn(period: string): Query<bigint> {
  return sumAt({ period, scope: '' })
}

function sumAt({ period, scope }: Pick<Place, 'period' | 'scope'>): Query<bigint> {
  return one<{ amount: number }>(ONE, period, scope).map((row) => BigInt(row?.amount ?? 0))
}

/** A period contains no space. */
function keyOf({ period, scope }: Pick<Place, 'period' | 'scope'>): string {
  return `${period} ${scope}`
}

function monthOf(day: string): string {
  return day.slice(0, 7)
}
