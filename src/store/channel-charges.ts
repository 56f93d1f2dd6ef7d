import type { UnixMs } from '../lib/clock.ts'
import type { Charge } from '../schema/channel.ts'
import { type ChannelSums, channelNo, putSums, type StoredChannel } from './buyer-channels.ts'
import { gathered } from './gathered.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { packMetered, unpackMetered } from './metered-row.ts'
import { endOrder, type Order, sizeOf } from './order-row.ts'
import { eachOf, nothing, one, type Query, run, steps, together, type Value } from './query.ts'
import {
  CHANGED,
  type ChangedRow,
  expenseOf,
  ofOrder,
  type ReservationOf,
  type ReservationState,
} from './reservation-row.ts'
import { noteRevision } from './revisions.ts'
import { addSpending, alike, byExpense, type Expense } from './spending.ts'

/** The ends of calls on channels that brought no result. */
export interface ChannelCharges {
  /** Ends the reservation of a call whose answer nobody has any more: it counts as spent, and its channel stops. */
  giveUpCall(of: ReservationOf, why: string, now: UnixMs): Promise<string | undefined>
}

/**
 * Counts the charge of a call into the sums of its channel as they are on disk. It may be called more than once, so it
 * changes nothing. `asked`: the most that the call may cost, as it is on disk.
 */
type CountCharge = (sums: ChannelSums, asked: bigint) => ChannelSums

/** A call that a channel has paid. `charge`: as the seller states it. */
export type ChargedCall = { charge: Charge | undefined; count: CountCharge }

/** How a call is stored that counts now. */
type StoredCharge = { state: 'spent'; confirmation: 'chain'; amount: bigint }

/** The end of a call. `receipt`: the values of the columns `receipt` and `receipt_note`. */
type ChargedEnd = { order: Order; onChannel: ChargedCall; receipt: readonly Value[] }

type CallRow = {
  id: string
  order_no: number
  channel: number
  state: ReservationState
  amount: number
  metered: string | null
}

/** No more than each end needs: SQLite takes half as long for it as for a row with the columns of `EXPENSES`. */
const CALLS = `
  SELECT o.id, a.order_no, a.channel, a.state, a.amount, a.metered
  FROM authorizations a JOIN orders o ON o.no = a.order_no WHERE a.channel IS NOT NULL AND o.id IN `
const EXPENSES = `
  SELECT o.id, a.day, a.seller_id, o.token_id
  FROM authorizations a JOIN orders o ON o.no = a.order_no WHERE o.id IN `
/** `confirmed_at`: the escrow of the channel is on the chain, so nothing more is asked of the chain about this call. */
const SPEND = `
  UPDATE authorizations SET state = 'spent', amount = ?, channel_seq = ?, receipt = coalesce(?, receipt), receipt_note = ?,
    metered = ?, confirmed_at = ?, updated_at = ?, look_at = NULL, unreceived = NULL
  WHERE order_no = ? AND state <> 'spent'`
const GIVE_UP = `
  UPDATE authorizations SET state = 'spent', confirmed_at = ?2, updated_at = ?2, look_at = NULL, unreceived = NULL
  WHERE ${ofOrder('?1')} AND state = 'reserved' AND channel IS NOT NULL RETURNING ${CHANGED}`
const STOP = `
  UPDATE buyer_channels SET stopped = coalesce(stopped, ?), updated_at = ?
  WHERE no = (SELECT channel FROM authorizations WHERE ${ofOrder()})`

export function channelCharges(database: LedgerDatabase): ChannelCharges {
  return {
    async giveUpCall({ orderId: id }, why, now) {
      const given = one<ChangedRow>(GIVE_UP, id, now)
      const stopped = run(STOP, why, now, id)
      const [row] = await database.commit(together(given, stopped), { record: 'purchase', id })
      return row?.order_id
    },
  }
}

/**
 * Stores the results of calls with their charges. Many are one change: each charge counts into the sums that the one before
 * it has left, and PostgreSQL runs the changes of a group side by side.
 */
export function chargedEnds(database: LedgerDatabase): (end: ChargedEnd) => Promise<StoredCharge | undefined> {
  return gathered(database, {
    change: (ends) => finishCharged(ends, database),
    alone: async (end) => (await database.commit(finishCharged([end], database)))[0],
    isOrdered: true,
    sizeOf: ({ order }) => sizeOf(order),
  })
}

/**
 * Stores the results of calls with their charges: the orders end, the reservations are spent with the charges, and the
 * channels count them. A result that comes again changes nothing of the sums.
 */
function finishCharged(
  ends: readonly ChargedEnd[],
  { process, note }: LedgerDatabase,
): Query<(StoredCharge | undefined)[]> {
  return steps(function* () {
    const rows = yield* callsOf(ends.map(({ order }) => order.id))
    const charged = chargedCalls(ends, rows)
    const numbers = [...new Set(charged.map(({ row }) => row.channel))]
    const stored = yield* together(...numbers.map(channelNo))
    const channels = new Map(numbers.map((no, at) => [no, stored[at]!]))
    const spends = charged.map((call) => spend(call, channels))
    const now = ends.at(-1)!.order.updatedAt
    const sums = [...channels.values()].map((channel) => putSums(channel.id, channel, now))
    const noted = ends.flatMap(({ order: { id } }) => [
      { record: 'order', id } as const,
      { record: 'purchase', id } as const,
    ])
    const [spent] = yield* together(
      together(...spends.map(({ change }) => change)),
      together(...ends.map(({ order }, at) => endOrder(rows[at]!.order_no, order, process))),
      together(...sums),
      note(...noted),
    )
    if (spent.includes(0)) throw new Error('a call on a channel was charged elsewhere meanwhile')
    // Most calls cost what was reserved for them, so nothing changes.
    const changed = charged.flatMap(({ row: { id } }, at) => {
      const { amount } = spends[at]!
      return amount === 0n ? [] : [{ id, amount }]
    })
    const expenses = yield* expensesOf(changed.map(({ id }) => id))
    const added = changed.map(({ amount }, at) => ({ expense: expenses[at]!, amount }))
    const isLate = charged.some(({ row }) => row.state === 'released')
    yield* together(isLate ? noteRevision() : nothing(undefined), ...sumsOf(added))
    const counted = new Map(charged.map(({ end }, at) => [end, spends[at]!.charged]))
    return ends.map((end) => {
      const amount = counted.get(end)
      return amount === undefined ? undefined : { state: 'spent', confirmation: 'chain', amount }
    })
  })
}

/** The calls of orders. */
const callsOf = (orderIds: readonly string[]): Query<(CallRow | undefined)[]> => eachOf<CallRow>(CALLS, orderIds)

/** What the calls of orders count in. */
function expensesOf(orderIds: readonly string[]): Query<Expense[]> {
  return eachOf<Parameters<typeof expenseOf>[0] & { id: string }>(EXPENSES, orderIds).map((rows) =>
    rows.map((row) => expenseOf(row!)),
  )
}

type CallAndEnd = { row: CallRow; end: ChargedEnd }

/** The calls that count now, each once. */
function chargedCalls(ends: readonly ChargedEnd[], rows: readonly (CallRow | undefined)[]): CallAndEnd[] {
  const calls = new Map<number, CallAndEnd>()
  for (const [at, end] of ends.entries()) {
    const row = rows[at]
    if (row === undefined) throw new Error(`order ${end.order.id} has no call on a channel`)
    if (row.state !== 'spent' && !calls.has(row.order_no)) calls.set(row.order_no, { row, end })
  }
  return [...calls.values()]
}

/** Counts a charge into the sums of its channel. @returns how it is stored, and what it changes of what counts as spent */
function spend({ row, end }: CallAndEnd, channels: Map<number, StoredChannel>) {
  const { onChannel, receipt, order } = end
  const { charge, count } = onChannel
  const asked = BigInt(row.amount)
  const channel = channels.get(row.channel)!
  channels.set(row.channel, { ...channel, ...count(channel, asked) })
  // More than what was asked is not owed, whatever the seller says.
  const amount = charge === undefined || charge.amount > asked ? asked : charge.amount
  const metered = packMetered({ ...unpackMetered(row.metered), units: charge?.units, cut: charge?.cut })
  const now = order.updatedAt
  const change = run(SPEND, amount, charge?.seq ?? null, ...receipt, metered, now, now, row.order_no)
  // A call that was given up is charged after all.
  return { change, charged: amount, amount: row.state === 'reserved' ? amount - asked : amount }
}

/** Adds to each sum once. Always in one order: two changes that wait for each other's rows would both be stuck. */
function sumsOf(expenses: readonly { expense: Expense; amount: bigint }[]): Query<unknown>[] {
  const sums = new Map<Expense, bigint>()
  for (const [at, expense] of alike(expenses.map(({ expense }) => expense)).entries()) {
    sums.set(expense, (sums.get(expense) ?? 0n) + expenses[at]!.amount)
  }
  return [...sums]
    .filter(([, amount]) => amount !== 0n)
    .toSorted(([a], [b]) => byExpense(a, b))
    .map(([expense, amount]) => addSpending(expense, amount))
}
