import type { UnixMs } from '../lib/clock.ts'
import type { Page } from '../schema/page.ts'
import type { Hex } from '../schema/primitives.ts'
import { toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { type Order, type OrderRow, toOrder } from './order-row.ts'
import type { PaymentState } from './payments.ts'
import { all, one, type Query, together, type Value } from './query.ts'
import { type RowLength, readLongPage } from './read-page.ts'
import type { RowOf } from './row.ts'

/** The payment that this node received for an exchange. */
export type ExchangePayment = {
  paymentId: Hex
  network: string
  asset: string
  amount: bigint
  payer: string
  payTo: string
  txHash: Hex | undefined
  /** The channel that covers it. */
  channel?: Hex | undefined
  state: PaymentState
}
export type StoredExchange = {
  correlationId: string
  input: string
  output: string | undefined
  error: string | undefined
  createdAt: UnixMs
  durationMs: number
  payment: ExchangePayment | undefined
}
/** When a session began, and when its last exchange ended. */
export type SessionSpan = { createdAt: UnixMs; updatedAt: UnixMs }
type PageQuery = { limit: number; cursor?: string | undefined }

/** The parts of sessions (D19): exchanges of this node's agents with peers, and the node's own orders. */
export interface SessionStore {
  /** The callers of an agent of this node, in the order of their names, after `after`. */
  callers(agentId: string, after: string, limit: number): Promise<string[]>
  span(agentId: string, callerId: string): Promise<SessionSpan | undefined>
  /** The latest exchanges before the cursor, oldest first. `next` leads to earlier ones. */
  exchanges(agentId: string, callerId: string, query: PageQuery): Promise<Page<StoredExchange>>
  /** The span of this node's orders at an agent, its own or another's. Only orders that ran and ended count. */
  ownSpan(agentId: string, owner?: string | undefined): Promise<SessionSpan | undefined>
  /** With `owner`, only the orders of this token. */
  ownExchanges(agentId: string, query: PageQuery, owner?: string | undefined): Promise<Page<Order>>
}

type ExchangeRow = Omit<RowOf<StoredExchange>, 'payment'> &
  Omit<RowOf<ExchangePayment>, 'paymentId' | 'channel'> & {
    id: number
    paymentId: Uint8Array | null
    channel: Uint8Array | null
  }

/** Jumps from caller to caller in the index: a session may have any number of exchanges. */
const CALLERS = `
  SELECT caller_id FROM (
    WITH RECURSIVE found (caller_id, place) AS (
      SELECT (SELECT caller_id FROM exchanges WHERE agent_id = ?1 AND caller_id > ?2 ORDER BY caller_id LIMIT 1), 1
      UNION ALL
      SELECT (SELECT e.caller_id FROM exchanges e WHERE e.agent_id = ?1 AND e.caller_id > found.caller_id
        ORDER BY e.caller_id LIMIT 1), place + 1
      FROM found WHERE caller_id IS NOT NULL AND place < ?3
    )
    SELECT caller_id, place FROM found WHERE caller_id IS NOT NULL
  ) AS callers ORDER BY place`
const EDGE = `SELECT created_at AS createdAt, created_at + duration_ms AS updatedAt FROM exchanges
  WHERE agent_id = ? AND caller_id = ? ORDER BY id`
const LENGTHS =
  'SELECT e.id AS no, octet_length(e.input) + coalesce(octet_length(e.output), 0) AS length FROM exchanges e'
const EXCHANGES = `
  SELECT e.id, e.correlation_id AS correlationId, e.input, e.output, e.error, e.created_at AS createdAt,
    e.duration_ms AS durationMs, p.id AS paymentId, p.network, p.asset, p.amount, p.payer, p.pay_to AS payTo,
    p.tx_hash AS txHash, p.channel, p.state
  FROM exchanges e LEFT JOIN payments p ON p.no = e.payment_no`
const NEWEST = 'WHERE e.agent_id = ? AND e.caller_id = ? AND e.id < ? ORDER BY e.id DESC LIMIT ?'
const OWN = `agent_id = ?1 AND correlation_id IS NOT NULL AND status NOT IN ('pending', 'executing')
  AND (CAST(?2 AS TEXT) IS NULL OR token_id = ?2)`
const OWN_EDGE = `SELECT coalesce(started_at, created_at) AS createdAt, updated_at AS updatedAt FROM orders
  WHERE ${OWN} ORDER BY no`
const OWN_LENGTHS = `SELECT no, coalesce(octet_length(task), 0) + coalesce(octet_length(output), 0) AS length FROM orders`
const OWN_NEWEST = `WHERE ${OWN} AND no < ?3 ORDER BY no DESC LIMIT ?4`

export function createSessionStore(database: LedgerDatabase): SessionStore {
  const before = (cursor: string | undefined) => (cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor))

  return {
    async callers(agentId, after, limit) {
      const rows = await database.query(all<{ caller_id: string }>(CALLERS, agentId, after, limit))
      return rows.map(({ caller_id }) => caller_id)
    },
    span: (agentId, callerId) => database.query(spanOf(EDGE, agentId, callerId)),
    async exchanges(agentId, callerId, { limit, cursor }) {
      const values = [agentId, callerId, before(cursor)]
      const page = readLongPage(
        limit,
        (count) => all<RowLength>(`${LENGTHS} ${NEWEST}`, ...values, count),
        (count) => all<ExchangeRow>(`${EXCHANGES} ${NEWEST}`, ...values, count),
      )
      return oldestFirst(await database.query(page), toExchange)
    },
    ownSpan: (agentId, owner) => database.query(spanOf(OWN_EDGE, agentId, owner ?? null)),
    async ownExchanges(agentId, { limit, cursor }, owner) {
      const values = [agentId, owner ?? null, before(cursor)]
      const page = readLongPage(
        limit,
        (count) => all<RowLength>(`${OWN_LENGTHS} ${OWN_NEWEST}`, ...values, count),
        (count) => all<OrderRow>(`SELECT * FROM orders ${OWN_NEWEST}`, ...values, count),
      )
      return oldestFirst(await database.query(page), toOrder)
    },
  }
}

function spanOf(sql: string, ...values: Value[]): Query<SessionSpan | undefined> {
  return together(
    one<SessionSpan>(`${sql} LIMIT 1`, ...values),
    one<SessionSpan>(`${sql} DESC LIMIT 1`, ...values),
  ).map(([first, last]) => first && last && { createdAt: first.createdAt, updatedAt: last.updatedAt })
}

/** Turns a page that was read newest first. */
function oldestFirst<Row, T>({ items, next }: Page<Row>, read: (row: Row) => T): Page<T> {
  return { items: items.map(read).toReversed(), next }
}

function toExchange(row: ExchangeRow): StoredExchange {
  const { correlationId, input, createdAt, durationMs } = row
  const answer = { output: row.output ?? undefined, error: row.error ?? undefined }
  return { correlationId, input, ...answer, createdAt, durationMs, payment: paymentOf(row) }
}

function paymentOf(row: ExchangeRow) {
  const { paymentId, network, asset, amount, payer, payTo, txHash, channel, state } = row
  if (paymentId === null) return undefined
  const payment = { paymentId: toHex(paymentId), network, asset, amount: BigInt(amount), payer, payTo, state }
  const hash = txHash === null ? undefined : toHex(txHash)
  return { ...payment, txHash: hash, ...(channel !== null && { channel: toHex(channel) }) }
}
