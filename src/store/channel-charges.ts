import type { UnixMs } from '../lib/clock.ts'
import type { Charge } from '../schema/channel.ts'
import type { Hex } from '../schema/primitives.ts'
import { type ChannelSums, channelNo, putSums } from './buyer-channels.ts'
import { toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { type Order, putOrder } from './order-row.ts'
import { one, type Query, run, steps, together, type Value } from './query.ts'
import {
  CHANGED,
  type ChangedRow,
  expenseOf,
  ofOrder,
  type ReservationOf,
  type ReservationState,
} from './reservation-row.ts'
import { noteRevision } from './revisions.ts'
import { addSpending } from './spending.ts'

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

type CallRow = { order_no: number; payment_id: Uint8Array; channel: number; state: ReservationState; amount: number }

const CALL = `
  SELECT a.order_no, a.payment_id, a.channel, a.state, a.amount FROM authorizations a JOIN orders o ON o.no = a.order_no
  WHERE o.id = ? AND a.channel IS NOT NULL`
/** `confirmed_at`: the escrow of the channel is on the chain, so nothing more is asked of the chain about this call. */
const SPEND = `
  UPDATE authorizations SET state = 'spent', amount = ?2, channel_seq = ?3, receipt = coalesce(?4, receipt), receipt_note = ?5,
    confirmed_at = ?6, updated_at = ?6, look_at = NULL, unreceived = NULL
  WHERE order_no = ?1 AND state <> 'spent' RETURNING ${CHANGED}`
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
 * Stores the result of a call with its charge: the order ends, the reservation is spent with the charge, and the channel
 * counts it. All in one transaction. A result that comes again changes nothing of the sums.
 *
 * @param receipt the values of the columns `receipt` and `receipt_note`
 */
export function finishCharged(
  order: Order,
  { charge, count }: ChargedCall,
  receipt: readonly Value[],
  process: string,
): Query<void> {
  return steps(function* () {
    const call = yield* one<CallRow>(CALL, order.id)
    if (call === undefined) throw new Error(`order ${order.id} has no call on a channel`)
    const ended = putOrder(order, process)
    if (call.state === 'spent') return void (yield* ended)
    const channel = yield* channelNo(call.channel)
    const asked = BigInt(call.amount)
    const counted = count(channel!, { call: toHex(call.payment_id), asked })
    // More than what was asked is not owed, whatever the seller says.
    const amount = charge === undefined || charge.amount > asked ? asked : charge.amount
    const spend = one<ChangedRow>(SPEND, call.order_no, amount, charge?.seq ?? null, ...receipt, order.updatedAt)
    const [, spent] = yield* together(ended, spend, putSums(channel!.id, counted, order.updatedAt))
    const expense = expenseOf(spent!)
    if (call.state === 'reserved') yield* addSpending(expense, amount - asked)
    // A call that was given up is charged after all.
    else yield* together(noteRevision(), addSpending(expense, amount))
  })
}
