import type { UnixMs } from '../lib/clock.ts'
import type { SignedAuthorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import { APPROVED_PRICE } from './approvals.ts'
import { AUTHORIZATION_COLUMNS, AUTHORIZATION_PLACES, authorizationValues } from './authorization-row.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { packMetered } from './metered-row.ts'
import { isFinal, type Order, type OrderStatus, putOrder } from './order-row.ts'
import { one, type Query, run, steps, together } from './query.ts'
import { CHANGED, type ChangedRow, expenseOf, ofOrder, type Reservation } from './reservation-row.ts'
import { noteRevision } from './revisions.ts'
import {
  addSpending,
  addWithin,
  exceeded,
  type LimitExceeded,
  type SpendingLimits,
  SUM_COLUMNS,
  type SumColumns,
  sumKeys,
  sumsIn,
} from './spending.ts'
import { RULES_TEXT } from './stored-rules.ts'
import { type StoredToken, tokenNamed } from './tokens.ts'

/** What the ledger knows of an order: the token of its owner, the highest price that the operator approved, the rules. */
export type Standing = {
  token: StoredToken | undefined
  approved: bigint | undefined
  /** The changed rules of the budget, as they are stored. */
  rules: string | undefined
}

/**
 * What a purchase must fit. `limits` and `approve` judge what was read in the same transaction. They may be called more
 * than once, so they change nothing.
 */
export type Allowance = {
  day: string
  limits(standing: Standing): SpendingLimits
  approve?(standing: Standing): void
  /** A call on a channel that its seller has refused. The order is paid for in another way: this reservation goes. */
  instead?: Hex | undefined
}

export type ReserveOutcome = 'reserved' | LimitExceeded | 'again' | 'ended'

const ASKED = 'FROM (SELECT CAST(? AS TEXT) AS id) AS asked'
const STANDING_COLUMNS = `${APPROVED_PRICE} AS approved, ${RULES_TEXT} AS rules`
const STANDING = `SELECT ${STANDING_COLUMNS} ${ASKED}`
const ORDER_COLUMNS = 'o.status, o.cancel_requested_at, a.payment_id'
const ASKED_ORDER = `${ASKED} LEFT JOIN orders o ON o.id = asked.id LEFT JOIN authorizations a ON a.order_no = o.no`
/** Reads what decides about the reservation of an order. Most orders are not in the ledger before it. */
export const ORDER_STANDING = `SELECT ${APPROVED_PRICE} AS approved, ${ORDER_COLUMNS} ${ASKED_ORDER}`
/** All that decides about a reservation but the token, in one row: SQLite takes longer for a statement than for what it reads. */
const DECIDING = `SELECT ${SUM_COLUMNS}, ${STANDING_COLUMNS}, ${ORDER_COLUMNS} ${ASKED_ORDER}`
export type OrderStanding = {
  approved: number | null
  status: OrderStatus | null
  cancel_requested_at: number | null
  payment_id: Uint8Array | null
}
type StandingRow = Pick<OrderStanding, 'approved'> & { rules: string | null }
/** Stores one authorization of an order, for ever, and none if the order has ended meanwhile. */
const INSERT_AUTHORIZATION = `
  INSERT INTO authorizations
    (order_no, payment_id, agent_id, seller_id, state, challenge_nonce, ${AUTHORIZATION_COLUMNS}, day,
     settles_first, sender, created_at, updated_at, metered, channel)
  SELECT no, ?, ?, ?, 'reserved', ?, ${AUTHORIZATION_PLACES}, ?, ?, ?, ?, ?, ?, (SELECT c.no FROM buyer_channels c WHERE c.id = ?)
  FROM orders WHERE id = ? AND status = ? AND cancel_requested_at IS NULL
  ON CONFLICT (order_no) DO NOTHING`

const FORGO = `
  DELETE FROM authorizations WHERE ${ofOrder()} AND payment_id = ? AND state = 'reserved' AND channel IS NOT NULL RETURNING ${CHANGED}`

/** Another process changed a limit's sum or the order between the read and the write. Nothing was written. */
export class LostRace extends Error {
  override name = 'LostRace'
}
const TRIES_MAX = 5

/**
 * Reserves without a lock: each sum is raised only while it stays within its limit, and only an order that is open and
 * has no authorization gets one. If that fails, everything is read again, with the sums locked, so that the refusal is
 * exact.
 */
export async function reserve(
  database: LedgerDatabase,
  order: Order,
  reservation: Reservation,
  allowance: Allowance,
): Promise<ReserveOutcome> {
  for (let tries = 1; ; tries++) {
    try {
      return await database.commit(
        attempt(order, reservation, { ...allowance, process: database.process, isLocked: tries > 1 }),
        { record: 'order', id: order.id },
        { record: 'purchase', id: order.id },
      )
    } catch (error) {
      if (!(error instanceof LostRace) || tries === TRIES_MAX) throw error
    }
  }
}

/** One try to reserve. @throws LostRace */
export function attempt(
  order: Order,
  reservation: Reservation,
  { day, limits, approve, instead, process, isLocked }: Allowance & { process: string; isLocked: boolean },
): Query<ReserveOutcome> {
  const { amount, sellerId } = reservation
  const spent = { day, sellerId, tokenId: order.tokenId }
  return steps(function* () {
    if (isLocked) yield* addSpending(spent, 0n)
    if (instead !== undefined) yield* forgo(order.id, instead)
    const [token, found] = yield* withToken(
      order,
      one<SumColumns & StandingRow & OrderStanding>(DECIDING, ...sumKeys(spent), order.id),
    )
    const row = found!
    const over = (allowed: SpendingLimits) => exceeded(spent, amount, { limits: allowed, sums: sumsIn(row) })
    const decision = decide(reservation, { limits, approve }, { order: row, standing: toStanding(token, row), over })
    if ('outcome' in decision) return decision.outcome
    const [isWithin, , inserted] = yield* together(
      addWithin(spent, amount, decision.within),
      putOrder(order, process),
      insertAuthorization(order, reservation, { day, process }),
    )
    if (!isWithin || inserted === 0) throw new LostRace(`order ${order.id} or a limit has changed meanwhile`)
    return 'reserved'
  })
}

type ReadBefore = {
  order: OrderStanding
  standing: Standing
  /** The first limit that the amount would exceed beside the sums as they were read. */
  over(limits: SpendingLimits): LimitExceeded | undefined
}

/** Decides by what was read. `within`: what the sums must not exceed when the amount is added. @throws what `Allowance` throws */
export function decide(
  { paymentId }: Reservation,
  { limits, approve }: Pick<Allowance, 'limits'> & { approve?: Allowance['approve'] | undefined },
  { order: { payment_id, status, cancel_requested_at }, standing, over }: ReadBefore,
): { outcome: ReserveOutcome } | { within: SpendingLimits } {
  if (payment_id !== null) {
    // This very reservation may be committed already, with an answer that was lost.
    return { outcome: Buffer.compare(payment_id, toBytes(paymentId)) === 0 ? 'reserved' : 'again' }
  }
  if (status !== null && (isFinal(status) || cancel_requested_at !== null)) return { outcome: 'ended' }
  const within = limits(standing)
  const limit = over(within)
  if (limit !== undefined) return { outcome: limit }
  approve?.(standing)
  return { within }
}

function forgo(orderId: string, paymentId: Hex): Query<void> {
  return steps(function* () {
    const row = yield* one<ChangedRow>(FORGO, orderId, toBytes(paymentId))
    if (row !== undefined) yield* together(noteRevision(), addSpending(expenseOf(row), -BigInt(row.amount)))
  })
}

export function insertAuthorization(
  order: Order,
  reservation: Reservation,
  { day, process }: { day: string; process: string },
): Query<number> {
  const { requirements, envelope, settlesFirst } = reservation
  return run(
    INSERT_AUTHORIZATION,
    toBytes(reservation.paymentId),
    reservation.agentId,
    reservation.sellerId,
    envelope.server_nonce === 'preemptive' ? null : toBytes(envelope.server_nonce),
    ...authorizationValues(requirements, envelope.payload ?? unsigned(reservation, order.updatedAt)),
    day,
    settlesFirst === true ? 1 : null,
    process,
    order.updatedAt,
    order.updatedAt,
    packMetered(reservation.metered ?? {}),
    reservation.channel ?? null,
    order.id,
    order.status,
  )
}

/** A call on a channel has no signature and no nonce of its own: its columns are empty, so that nobody asks the chain by them. */
function unsigned({ requirements, envelope, validBeforeSeconds }: Reservation, now: UnixMs): SignedAuthorization {
  const [validAfter, validBefore] = [BigInt(Math.floor(now / 1000)), BigInt(validBeforeSeconds)]
  const { payTo: to, amount: value } = requirements
  return { signature: '0x', authorization: { from: envelope.payer, to, value, validAfter, validBefore, nonce: '0x' } }
}

export function standingOf(order: Pick<Order, 'id' | 'tokenId'>): Query<Standing> {
  return withToken(order, one<StandingRow>(STANDING, order.id)).map(([token, row]) => toStanding(token, row!))
}

/** The token of an order, in the round trip of a query. */
function withToken<T>({ tokenId }: Pick<Order, 'tokenId'>, query: Query<T>): Query<[StoredToken | undefined, T]> {
  return tokenId === undefined ? query.map((value) => [undefined, value]) : together(tokenNamed(tokenId), query)
}

export function toStanding(token: StoredToken | undefined, { approved, rules }: StandingRow): Standing {
  return { token, approved: approved === null ? undefined : BigInt(approved), rules: rules ?? undefined }
}
