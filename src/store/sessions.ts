import type { UnixMs } from '../lib/clock.ts'
import type { Page } from '../schema/page.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Database } from './database.ts'
import { toHex } from './hex.ts'
import { type Order, type OrderRow, toOrder } from './order-row.ts'
import type { PaymentState } from './payments.ts'
import { readPage } from './read-page.ts'
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
  callers(agentId: string, after: string, limit: number): string[]
  span(agentId: string, callerId: string): SessionSpan | undefined
  /** The latest exchanges before the cursor, oldest first. `next` leads to earlier ones. */
  exchanges(agentId: string, callerId: string, query: PageQuery): Page<StoredExchange>
  /** The span of this node's orders at an agent, its own or another's. Only orders that ran and ended count. */
  ownSpan(agentId: string, owner?: string | undefined): SessionSpan | undefined
  /** With `owner`, only the orders of this token. */
  ownExchanges(agentId: string, query: PageQuery, owner?: string | undefined): Page<Order>
}

type ExchangeRow = Omit<RowOf<StoredExchange>, 'payment'> &
  Omit<RowOf<ExchangePayment>, 'paymentId'> & { id: number; paymentId: Uint8Array | null }

const NEXT_CALLER = `
  SELECT caller_id FROM exchanges WHERE agent_id = ? AND caller_id > ? ORDER BY caller_id LIMIT 1`
const EDGE = 'SELECT created_at, duration_ms FROM exchanges WHERE agent_id = ? AND caller_id = ? ORDER BY id'
const EXCHANGES = `
  SELECT e.id, e.correlation_id AS correlationId, e.input, e.output, e.error, e.created_at AS createdAt,
    e.duration_ms AS durationMs, p.id AS paymentId, p.network, p.asset, p.amount, p.payer, p.pay_to AS payTo,
    p.tx_hash AS txHash, p.state
  FROM exchanges e LEFT JOIN payments p ON p.no = e.payment_no
  WHERE e.agent_id = ? AND e.caller_id = ? AND e.id < ? ORDER BY e.id DESC`
const OWN = `agent_id = ?1 AND correlation_id IS NOT NULL AND +status IN ('completed', 'failed', 'cancelled')
  AND (?2 IS NULL OR token_id = ?2)`
const OWN_EDGE = `SELECT coalesce(started_at, created_at) AS created_at, updated_at FROM orders WHERE ${OWN} ORDER BY no`
const OWN_EXCHANGES = `SELECT * FROM orders WHERE ${OWN} AND no < ?3 ORDER BY no DESC`

export function createSessionStore(database: Database): SessionStore {
  const { one } = database
  const before = (cursor: string | undefined) => (cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor))

  return {
    callers(agentId, after, limit) {
      // Jump from caller to caller in the index: a session may have any number of exchanges.
      const callers: string[] = []
      for (let last = after; callers.length < limit; ) {
        const row = one<{ caller_id: string }>(NEXT_CALLER, agentId, last)
        if (row === undefined) break
        callers.push(row.caller_id)
        last = row.caller_id
      }
      return callers
    },
    span(agentId, callerId) {
      type Edge = { created_at: number; duration_ms: number }
      const first = one<Edge>(`${EDGE} LIMIT 1`, agentId, callerId)
      const last = one<Edge>(`${EDGE} DESC LIMIT 1`, agentId, callerId)
      if (first === undefined || last === undefined) return undefined
      return { createdAt: first.created_at, updatedAt: last.created_at + last.duration_ms }
    },
    exchanges(agentId, callerId, { limit, cursor }) {
      const rows = database.prepare(EXCHANGES).iterate(agentId, callerId, before(cursor)) as Iterable<unknown>
      const page = readPage(rows as Iterable<ExchangeRow>, limit, (row) => {
        return { item: toExchange(row), no: row.id, length: row.input.length + (row.output?.length ?? 0) }
      })
      return oldestFirst(page)
    },
    ownSpan(agentId, owner) {
      type Edge = { created_at: number; updated_at: number }
      const first = one<Edge>(`${OWN_EDGE} LIMIT 1`, agentId, owner ?? null)
      const last = one<Edge>(`${OWN_EDGE} DESC LIMIT 1`, agentId, owner ?? null)
      if (first === undefined || last === undefined) return undefined
      return { createdAt: first.created_at, updatedAt: last.updated_at }
    },
    ownExchanges(agentId, { limit, cursor }, owner) {
      const rows = database.prepare(OWN_EXCHANGES).iterate(agentId, owner ?? null, before(cursor)) as Iterable<unknown>
      const page = readPage(rows as Iterable<OrderRow>, limit, (row) => {
        return { item: toOrder(row), no: row.no, length: (row.task?.length ?? 0) + (row.output?.length ?? 0) }
      })
      return oldestFirst(page)
    },
  }
}

/** Turns a page that was read newest first. */
function oldestFirst<T>({ items, next }: Page<T>): Page<T> {
  return { items: items.toReversed(), next }
}

function toExchange(row: ExchangeRow): StoredExchange {
  const { correlationId, input, createdAt, durationMs } = row
  const answer = { output: row.output ?? undefined, error: row.error ?? undefined }
  return { correlationId, input, ...answer, createdAt, durationMs, payment: paymentOf(row) }
}

function paymentOf({ paymentId, network, asset, amount, payer, payTo, txHash, state }: ExchangeRow) {
  if (paymentId === null) return undefined
  const payment = { paymentId: toHex(paymentId), network, asset, amount: BigInt(amount), payer, payTo, state }
  return { ...payment, txHash: txHash === null ? undefined : toHex(txHash) }
}
