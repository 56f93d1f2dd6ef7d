import { gathered } from './gathered.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { type Order, putOrder, sizeOf } from './order-row.ts'
import { beside, one, type Query, steps, together } from './query.ts'
import { RaisedSums } from './raised-sums.ts'
import type { Reservation } from './reservation-row.ts'
import {
  type Allowance,
  attempt,
  decide,
  insertAuthorization,
  LostRace,
  ORDER_STANDING,
  type OrderStanding,
  type ReserveOutcome,
  reserve,
  toStanding,
} from './reserve.ts'
import {
  alike,
  byExpense,
  type Expense,
  type SpendingLimits,
  SUM_COLUMNS,
  type SumColumns,
  sumKeys,
} from './spending.ts'
import { RULES_TEXT } from './stored-rules.ts'
import { type StoredToken, tokenNamed } from './tokens.ts'

type AskedReservation = { order: Order; reservation: Reservation; allowance: Allowance }
/** What became of a reservation among others: what refuses one of them refuses none of the others. */
type Decided = { outcome: ReserveOutcome } | { error: unknown }

type Shared = { rules: string | null; tokens: ReadonlyMap<string, StoredToken | undefined>; sums: RaisedSums }

/**
 * Reserves for the orders of one turn in one change: the rules and the sums are read once, and each sum is raised once. Who is
 * refused, and why, is as if one came after the other. If the sums or an order change meanwhile, each is reserved by
 * itself.
 */
export function reservations(
  database: LedgerDatabase,
): (order: Order, reservation: Reservation, allowance: Allowance) => Promise<ReserveOutcome> {
  const byItself = (asked: AskedReservation) => reserve(database, asked.order, asked.reservation, asked.allowance)
  const store = gathered<AskedReservation, Decided>(database, {
    change: (asked) => (asked.length === 1 ? reserveOne(asked[0]!, database) : reserveAll(asked, database)),
    alone: async (asked) => ({ outcome: await byItself(asked) }),
    isOrdered: false,
    mayPassAlone: (error) => error instanceof LostRace,
    sizeOf: ({ order }) => sizeOf(order),
  })
  return async (order, reservation, allowance) => {
    const asked = { order, reservation, allowance }
    if (allowance.instead !== undefined) return byItself(asked)
    const decided = await store(asked)
    if ('error' in decided) throw decided.error
    return decided.outcome
  }
}

function reserveOne(
  { order, reservation, allowance }: AskedReservation,
  { process, note }: LedgerDatabase,
): Query<readonly Decided[]> {
  const tried = attempt(order, reservation, { ...allowance, process, isLocked: false })
  return beside(tried, note(...changesOf(order))).map((outcome) => [{ outcome }])
}

const changesOf = ({ id }: Order) => [{ record: 'order', id } as const, { record: 'purchase', id } as const]

function reserveAll(asked: readonly AskedReservation[], { process, note }: LedgerDatabase): Query<Decided[]> {
  return steps(function* () {
    if (new Set(asked.map(({ order }) => order.id)).size < asked.length)
      throw new LostRace('an order is asked for twice')
    const spent = alike(asked.map(expenseOf))
    // In one order: two changes that wait for each other's sums would both be stuck.
    const expenses = [...new Set(spent)].toSorted(byExpense)
    const tokenIds = [...new Set(expenses.flatMap(({ tokenId }) => tokenId ?? []))]
    const [columns, standings, tokens, kept] = yield* together(
      together(...expenses.map((expense) => one<SumColumns>(`SELECT ${SUM_COLUMNS}`, ...sumKeys(expense)))),
      together(...asked.map(({ order }) => one<OrderStanding>(ORDER_STANDING, order.id))),
      together(...tokenIds.map(tokenNamed)),
      one<{ rules: string | null }>(`SELECT ${RULES_TEXT} AS rules`),
    )
    const sums = new RaisedSums()
    for (const [at, expense] of expenses.entries()) sums.read(expense, columns[at]!)
    const named = new Map(tokenIds.map((id, at) => [id, tokens[at]]))
    const shared: Shared = { rules: kept!.rules, tokens: named, sums }
    const decided = asked.map((each, at) => decideNext(each, { order: standings[at]!, spent: spent[at]! }, shared))
    const made = asked.filter((_, at) => decided[at] === MADE)
    const [isWithin, , inserted] = yield* together(
      sums.write(),
      together(...made.map(({ order }) => putOrder(order, process))),
      together(
        ...made.map(({ order, reservation, allowance: { day } }) =>
          insertAuthorization(order, reservation, { day, process }),
        ),
      ),
      note(...made.flatMap(({ order }) => changesOf(order))),
    )
    if (!isWithin || inserted.includes(0)) throw new LostRace('an order or a limit has changed meanwhile')
    return decided
  })
}

const MADE: Decided = { outcome: 'reserved' }

/** Decides about one reservation after those before it, whose amounts are in the sums. */
function decideNext(
  asked: AskedReservation,
  { order, spent }: { order: OrderStanding; spent: Expense },
  { rules, tokens, sums }: Shared,
): Decided {
  const { reservation, allowance } = asked
  const { tokenId } = asked.order
  const token = tokenId === undefined ? undefined : tokens.get(tokenId)
  const standing = toStanding(token, { approved: order.approved, rules })
  const over = (limits: SpendingLimits) => sums.exceeded(spent, reservation.amount, limits)
  try {
    const decision = decide(reservation, allowance, { order, standing, over })
    if ('outcome' in decision) return decision
    sums.raise(spent, reservation.amount, decision.within)
    return MADE
  } catch (error) {
    return { error }
  }
}

function expenseOf({ order: { tokenId }, reservation: { sellerId }, allowance: { day } }: AskedReservation): Expense {
  return { day, sellerId, tokenId }
}
