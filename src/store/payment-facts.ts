import type { UnixMs } from '../lib/clock.ts'
import { A2A_CALLER } from '../schema/caller.ts'
import type { Door } from '../schema/door.ts'
import type { Hex } from '../schema/primitives.ts'
import { toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import type { PaymentState } from './payment-row.ts'
import { all } from './query.ts'
import type { ReservationState } from './reservation-row.ts'

export type LedgerDirection = 'in' | 'out'
export type LedgerState = PaymentState | ReservationState

type PaymentKind = {
  state: LedgerState
  /** Incoming: true if the agent did its work. Outgoing: true if the chain shows the payment. */
  proven: boolean
  agentId: string
  amount: bigint
  /** The token that requested the payment. */
  owner?: string | undefined
  /** The way by which a received payment came. */
  door?: Door | undefined
}

/** The figures of one payment, used for sums over many rows. */
export type PaymentFact = PaymentKind & {
  no: number
  /** The transaction that refunded the payment. */
  refundTx?: Hex | undefined
  createdAt: UnixMs
}

/** Payments of one kind and time, summed up by the database. */
export type PaymentSum = PaymentKind & {
  refunded: boolean
  /** The beginning of their hour, or of their day (UTC) if they are older. */
  slot: UnixMs
  newestAt: UnixMs
  payments: number
  /** The highest number among them. */
  last: number
}

/** Reads payments for sums over the whole ledger. */
export interface PaymentFacts {
  /** The oldest `limit` payments after number `after`. */
  paymentFacts(direction: LedgerDirection, after: number, limit: number): Promise<PaymentFact[]>
  /** The same payments, summed up. `hoursSince`: those accepted since then are summed by hour. */
  paymentSums(
    direction: LedgerDirection,
    after: number,
    options: { limit: number; hoursSince: UnixMs },
  ): Promise<PaymentSum[]>
}

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS
/**
 * Worded so that PostgreSQL reads a large ledger in the order of its numbers. For a join it would read all orders each
 * time, and of a condition with `coalesce` it believes that hardly a row meets it.
 */
const FACTS = {
  in: `SELECT no, state, exchange_id IS NOT NULL AS proven, refund_tx, agent_id, amount, created_at, CAST(NULL AS TEXT) AS owner,
      CASE WHEN door IS NULL AND substr(peer_id, 1, ${A2A_CALLER.length}) = '${A2A_CALLER}' THEN 'a2a' ELSE coalesce(door, 'libp2p') END AS door
    FROM payments WHERE no > ?1 AND (CAST(?3 AS TEXT) IS NULL OR network = ?3) ORDER BY no LIMIT ?2`,
  out: `SELECT a.order_no AS no, a.state, a.confirmed_at IS NOT NULL AS proven, a.refund_tx, a.agent_id, a.amount, a.created_at,
      (SELECT o.token_id FROM orders o WHERE o.no = a.order_no) AS owner, CAST(NULL AS TEXT) AS door
    FROM authorizations a WHERE a.order_no > ?1 AND (CAST(?3 AS TEXT) IS NULL OR a.network = ?3) ORDER BY a.order_no LIMIT ?2`,
} as const
const sumsOf = (facts: string) => `
  SELECT state, proven, refunded, agent_id, owner, door, slot, max(created_at) AS newest_at, max(no) AS last,
    count(*) AS payments, CAST(sum(amount) AS TEXT) AS amount
  FROM (
    SELECT no, state, proven, refund_tx IS NOT NULL AS refunded, agent_id, owner, door, amount, created_at,
      CASE WHEN created_at >= ?4 THEN created_at / ${HOUR_MS} * ${HOUR_MS} ELSE created_at / ${DAY_MS} * ${DAY_MS} END AS slot
    FROM (${facts}) AS facts) AS slotted
  GROUP BY state, proven, refunded, agent_id, owner, door, slot`
const SUMS = { in: sumsOf(FACTS.in), out: sumsOf(FACTS.out) } as const

type KindRow = { state: LedgerState; proven: number; agent_id: string; owner: string | null; door: Door | null }
type FactRow = KindRow & { no: number; amount: number; refund_tx: Uint8Array | null; created_at: number }
type PaymentSumRow = KindRow & {
  amount: string
  refunded: number
  slot: number
  newest_at: number
  payments: number
  last: number
}

/** @param network the network to sum up, or all */
export function paymentFacts(database: LedgerDatabase, network: string | undefined): PaymentFacts {
  return {
    async paymentFacts(direction, after, limit) {
      const rows = await database.query(all<FactRow>(FACTS[direction], after, limit, network ?? null))
      return rows.map((row) => ({
        ...kindOf(row),
        no: row.no,
        ...(row.refund_tx !== null && { refundTx: toHex(row.refund_tx) }),
        createdAt: row.created_at,
      }))
    },
    async paymentSums(direction, after, { limit, hoursSince }) {
      const rows = await database.query(all<PaymentSumRow>(SUMS[direction], after, limit, network ?? null, hoursSince))
      return rows.map((row) => ({
        ...kindOf(row),
        refunded: row.refunded === 1,
        slot: row.slot,
        newestAt: row.newest_at,
        payments: row.payments,
        last: row.last,
      }))
    },
  }
}

function kindOf({
  state,
  proven,
  agent_id: agentId,
  amount,
  owner,
  door,
}: KindRow & { amount: number | string }): PaymentKind {
  return {
    state,
    proven: proven === 1,
    agentId,
    amount: BigInt(amount),
    owner: owner ?? undefined,
    door: door ?? undefined,
  }
}
