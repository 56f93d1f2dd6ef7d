import type { UnixMs } from '../lib/clock.ts'
import type { Charge } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { type ChannelSums, channelNo, putSums, type StoredChannel } from './buyer-channels.ts'
import { toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { packMetered, unpackMetered } from './metered-row.ts'
import { endOrder, type Order } from './order-row.ts'
import { nothing, one, type Query, run, steps, together, type Value } from './query.ts'
import {
  CHANGED,
  type ChangedRow,
  expenseOf,
  ofOrder,
  type ReservationOf,
  type ReservationState,
} from './reservation-row.ts'
import { noteRevision } from './revisions.ts'
import { addSpending, type Expense } from './spending.ts'
import { isLedgerAway } from './store-error.ts'

/** The ends of calls on channels that brought no result. */
export interface ChannelCharges {
  /** Ends the reservation of a call whose answer nobody has any more: it counts as spent, and its channel stops. */
  giveUpCall(of: ReservationOf, why: string, now: UnixMs): Promise<string | undefined>
}

/**
 * Counts the charge of a call into the sums of its channel as they are on disk. It may be called more than once, so it
 * changes nothing.
 */
type CountCharge = (sums: ChannelSums, call: { call: Hex; asked: bigint }) => ChannelSums

/** A call that a channel has paid. `charge`: as the seller states it. */
export type ChargedCall = { charge: Charge | undefined; count: CountCharge }

/** How a call is stored that counts now. */
type StoredCharge = { state: 'spent'; confirmation: 'chain'; amount: bigint }

/** The end of a call. `receipt`: the values of the columns `receipt` and `receipt_note`. */
type ChargedEnd = { order: Order; onChannel: ChargedCall; receipt: readonly Value[] }
type WaitingEnd = { end: ChargedEnd; resolve(stored: StoredCharge | undefined): void; reject(error: unknown): void }

type CallRow = Parameters<typeof expenseOf>[0] & {
  order_no: number
  payment_id: Uint8Array
  channel: number
  state: ReservationState
  amount: number
  metered: string | null
}

const CALL = `
  SELECT a.order_no, a.payment_id, a.channel, a.state, a.amount, a.metered, a.day, a.seller_id, o.token_id
  FROM authorizations a JOIN orders o ON o.no = a.order_no WHERE o.id = ? AND a.channel IS NOT NULL`
/** `confirmed_at`: the escrow of the channel is on the chain, so nothing more is asked of the chain about this call. */
const SPEND = `
  UPDATE authorizations SET state = 'spent', amount = ?2, channel_seq = ?3, receipt = coalesce(?4, receipt), receipt_note = ?5,
    metered = ?7, confirmed_at = ?6, updated_at = ?6, look_at = NULL, unreceived = NULL
  WHERE order_no = ?1 AND state <> 'spent'`
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

/** Ends of calls that are stored in one transaction at most. */
const ENDS_MAX = 256

/**
 * Stores the results of calls with their charges. Those that end in one turn, or while others are stored, are one change:
 * each charge counts into the sums that the one before it has left, and PostgreSQL runs the changes of a group side by side.
 */
export function chargedEnds(database: LedgerDatabase): (end: ChargedEnd) => Promise<StoredCharge | undefined> {
  let waiting: WaitingEnd[] = []
  let isStoring = false

  async function store(): Promise<void> {
    let begun: WaitingEnd[] | undefined
    const take = () => {
      const taken = waiting.slice(0, ENDS_MAX)
      waiting = waiting.slice(ENDS_MAX)
      return taken
    }
    // What comes until the transaction begins is in it. A transaction that is run again has the same ends.
    const change = steps(function* () {
      begun ??= take()
      return yield* finishCharged(endsOf(begun), database)
    })
    try {
      const stored = await database.commit(change)
      for (const [at, { resolve }] of begun!.entries()) resolve(stored[at])
    } catch (error) {
      begun ??= take()
      if (begun.length === 1 || isLedgerAway(error)) for (const { reject } of begun) reject(error)
      else for (const each of begun) await alone(each)
    }
  }

  async function alone({ end, resolve, reject }: WaitingEnd): Promise<void> {
    await database.commit(finishCharged([end], database)).then(([stored]) => resolve(stored), reject)
  }

  async function storeAll(): Promise<void> {
    isStoring = true
    while (waiting.length > 0) await store()
    isStoring = false
  }

  return (end) =>
    new Promise((resolve, reject) => {
      waiting.push({ end, resolve, reject })
      if (!isStoring) void storeAll()
    })
}

const endsOf = (waiting: readonly WaitingEnd[]) => waiting.map(({ end }) => end)

/**
 * Stores the results of calls with their charges: the orders end, the reservations are spent with the charges, and the
 * channels count them. A result that comes again changes nothing of the sums.
 */
function finishCharged(
  ends: readonly ChargedEnd[],
  { process, note }: LedgerDatabase,
): Query<(StoredCharge | undefined)[]> {
  return steps(function* () {
    const rows = yield* together(...ends.map(({ order }) => one<CallRow>(CALL, order.id)))
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
    const expenses = spends.map(({ amount }, at) => ({ expense: expenseOf(charged[at]!.row), amount }))
    const isLate = charged.some(({ row }) => row.state === 'released')
    yield* together(isLate ? noteRevision() : nothing(undefined), ...sumsOf(expenses))
    const counted = new Map(charged.map(({ end }, at) => [end, spends[at]!.charged]))
    return ends.map((end) => {
      const amount = counted.get(end)
      return amount === undefined ? undefined : { state: 'spent', confirmation: 'chain', amount }
    })
  })
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
  channels.set(row.channel, { ...channel, ...count(channel, { call: toHex(row.payment_id), asked }) })
  // More than what was asked is not owed, whatever the seller says.
  const amount = charge === undefined || charge.amount > asked ? asked : charge.amount
  const metered = packMetered({ ...unpackMetered(row.metered), units: charge?.units, cut: charge?.cut })
  const values = [row.order_no, amount, charge?.seq ?? null, ...receipt, order.updatedAt, metered]
  const change = run(SPEND, ...values)
  // A call that was given up is charged after all.
  return { change, charged: amount, amount: row.state === 'reserved' ? amount - asked : amount }
}

/** Adds to each sum once. Always in one order: two changes that wait for each other's rows would both be stuck. */
function sumsOf(expenses: readonly { expense: Expense; amount: bigint }[]): Query<unknown>[] {
  const sums = new Map<string, { expense: Expense; amount: bigint }>()
  for (const { expense, amount } of expenses) {
    const key = `${expense.day} ${expense.sellerId} ${expense.tokenId}`
    sums.set(key, { expense, amount: amount + (sums.get(key)?.amount ?? 0n) })
  }
  return [...sums]
    .filter(([, { amount }]) => amount !== 0n)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { expense, amount }]) => addSpending(expense, amount))
}
