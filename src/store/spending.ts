import type { Database } from './database.ts'

/** The limits of a purchase: the most that may be spent or reserved under each, in atomic units. */
export type SpendingLimits = { [name in LimitName]?: bigint | undefined }
export type LimitName = 'day' | 'month' | 'seller' | 'token' | 'token day'
/** The first limit that a purchase exceeds. */
export type LimitExceeded = { over: LimitName; spent: bigint; max: bigint }

/** Who spends, when, and at which seller. */
export type Expense = { day: string; sellerId: string; tokenId: string | undefined }

type Place = { name: LimitName; period: string; scope: string }

const ADD = `
  INSERT INTO spending (period, scope, amount) VALUES (?, ?, ?)
  ON CONFLICT (period, scope) DO UPDATE SET amount = amount + excluded.amount`

/** Every sum that a purchase belongs to. A release subtracts from the same sums. */
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

/** The sums behind budgets. Call `add` inside a transaction. */
export function spending(database: Database) {
  const at = ({ period, scope }: Pick<Place, 'period' | 'scope'>) => {
    const row = database.one('SELECT amount FROM spending WHERE period = ? AND scope = ?', period, scope)
    return BigInt((row as { amount: number } | undefined)?.amount ?? 0)
  }
  return {
    /** The first limit that an amount would exceed. Undefined: it exceeds none. */
    over(spent: Expense, amount: bigint, limits: SpendingLimits): LimitExceeded | undefined {
      for (const place of placesOf(spent)) {
        const max = limits[place.name]
        if (max === undefined) continue
        const sum = at(place)
        if (sum + amount > max) return { over: place.name, spent: sum, max }
      }
      return undefined
    },
    /** A negative amount subtracts. */
    add(spent: Expense, amount: bigint): void {
      for (const { period, scope } of placesOf(spent)) database.run(ADD, period, scope, amount)
    },
    /** The sum of a UTC day, `2026-11-21`, or of a month, `2026-11`. */
    in: (period: string) => at({ period, scope: '' }),
    onSeller: (sellerId: string, day: string) => at({ period: day, scope: `seller ${sellerId}` }),
    /** The sum of one day, or of all days. */
    byToken: (tokenId: string, day = '') => at({ period: day, scope: `token ${tokenId}` }),
  }
}

function monthOf(day: string): string {
  return day.slice(0, 7)
}
