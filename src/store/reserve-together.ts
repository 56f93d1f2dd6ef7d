import { APPROVED_PRICE } from './approvals.ts'
import { gathered } from './gathered.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { isFinal, type Order, type OrderStatus, putOrder, sizeOf } from './order-row.ts'
import { beside, one, type Query, steps, together } from './query.ts'
import { RaisedSums } from './raised-sums.ts'
import type { Reservation } from './reservation-row.ts'
import { type Allowance, attempt, insertAuthorization, LostRace, type ReserveOutcome, reserve } from './reserve.ts'
import { type Expense, SUM_COLUMNS, type SumColumns, sumKeys } from './spending.ts'
import { RULES_TEXT } from './stored-rules.ts'
import { type StoredToken, tokenNamed } from './tokens.ts'

type AskedReservation = { order: Order; reservation: Reservation; allowance: Allowance }
/** What became of a reservation among others: what refuses one of them refuses none of the others. */
type Decided = { outcome: ReserveOutcome } | { error: unknown }

/** What of the order decides about its reservation. Most orders begin with it, and are not in the ledger yet. */
const STANDING = `
  SELECT ${APPROVED_PRICE} AS approved, o.status, o.cancel_requested_at, a.payment_id
  FROM (SELECT CAST(? AS TEXT) AS id) AS asked
    LEFT JOIN orders o ON o.id = asked.id LEFT JOIN authorizations a ON a.order_no = o.no`
type JudgedRow = {
  approved: number | null
  status: OrderStatus | null
  cancel_requested_at: number | null
  payment_id: Uint8Array | null
}

type ReadBefore = { rules: string | undefined; tokens: ReadonlyMap<string, StoredToken | undefined>; sums: RaisedSums }

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
    const expenses = distinct(asked.map(expenseOf))
    const tokenIds = [...new Set(expenses.flatMap(({ tokenId }) => tokenId ?? []))]
    const [columns, standings, tokens, kept] = yield* together(
      together(...expenses.map((spent) => one<SumColumns>(`SELECT ${SUM_COLUMNS}`, ...sumKeys(spent)))),
      together(...asked.map(({ order }) => one<JudgedRow>(STANDING, order.id))),
      together(...tokenIds.map(tokenNamed)),
      one<{ rules: string | null }>(`SELECT ${RULES_TEXT} AS rules`),
    )
    const sums = new RaisedSums()
    for (const [at, spent] of expenses.entries()) sums.read(spent, columns[at]!)
    const named = new Map(tokenIds.map((id, at) => [id, tokens[at]]))
    const read: ReadBefore = { rules: kept?.rules ?? undefined, tokens: named, sums }
    const decided = asked.map((each, at) => decide(each, standings[at]!, read))
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
function decide(
  { order, reservation, allowance }: AskedReservation,
  { approved, status, cancel_requested_at, payment_id }: JudgedRow,
  { rules, tokens, sums }: ReadBefore,
): Decided {
  if (payment_id !== null) {
    // This very reservation may be committed already, with an answer that was lost.
    return { outcome: Buffer.compare(payment_id, toBytes(reservation.paymentId)) === 0 ? 'reserved' : 'again' }
  }
  if (status !== null && (isFinal(status) || cancel_requested_at !== null)) return { outcome: 'ended' }
  const token = order.tokenId === undefined ? undefined : tokens.get(order.tokenId)
  const standing = { token, rules, approved: approved === null ? undefined : BigInt(approved) }
  try {
    const limits = allowance.limits(standing)
    const spent = expenseOf({ order, reservation, allowance })
    const over = sums.exceeded(spent, reservation.amount, limits)
    if (over !== undefined) return { outcome: over }
    allowance.approve?.(standing)
    sums.raise(spent, reservation.amount, limits)
    return MADE
  } catch (error) {
    return { error }
  }
}

function expenseOf({ order: { tokenId }, reservation: { sellerId }, allowance: { day } }: AskedReservation): Expense {
  return { day, sellerId, tokenId }
}

/** Each once, in one order: two changes that wait for each other's sums would both be stuck. */
function distinct(expenses: readonly Expense[]): Expense[] {
  const byKey = new Map(expenses.map((spent) => [`${spent.day} ${spent.sellerId} ${spent.tokenId}`, spent]))
  return [...byKey].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, spent]) => spent)
}
