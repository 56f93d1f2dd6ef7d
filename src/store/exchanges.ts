import type { UnixMs } from '../lib/clock.ts'
import { RESULT_HOURS, SESSION_DAYS } from '../schema/limits.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import { toBytes } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LAST_EXCHANGE, LAST_PAYMENT } from './new-ids.ts'
import { type PaymentRow, type StoredPayment, toPayment } from './payment-row.ts'
import { all, one, type Query, run, steps, together } from './query.ts'
import { packReceipt } from './receipt-row.ts'

/** A task that a caller gave to an agent of this node, and its outcome. */
export type NewExchange = {
  agentId: string
  /** The caller's DID, proven by the connection, or `local`. */
  callerId: string
  correlationId: string
  input: string
  output?: string | undefined
  error?: string | undefined
  /** The id of a stored payment. */
  paymentId?: Hex | undefined
  /** Stored with that payment. */
  receipt?: SignedReceipt | undefined
  createdAt: UnixMs
  durationMs: number
}

/** The exchanges of this node's agents: the basis of its sessions (D19) and its paid results (D32). */
export interface Exchanges {
  /** @returns the payment that the exchange names, as it is now */
  record(exchange: NewExchange): Promise<StoredPayment | undefined>
  /** The latest exchanges of one caller with one agent that have an answer, oldest first. */
  history(agentId: string, callerId: string, limit: number): Promise<{ input: string; output: string }[]>
  /** The result of a payment, as long as it is kept. */
  paidOutput(paymentId: Hex): Promise<string | undefined>
  /** Drops paid results and session exchanges that are older than their limits. */
  purge(now: UnixMs): Promise<void>
  /**
   * If the database is too large, drops the oldest exchanges except paid results. Callers who pay nothing, or pay with
   * worthless authorizations, must not fill the disk (T7, T19). The freed pages are used again.
   */
  trim(now: UnixMs): Promise<void>
}

/** How long a paid result is kept after its payment was settled or given up (D32). */
const RESULT_KEPT_MS = RESULT_HOURS * 60 * 60 * 1000
/** How long a session remembers an exchange. */
const SESSION_KEPT_MS = SESSION_DAYS * 24 * 60 * 60 * 1000
const PURGE_ROWS_MAX = 5_000
/**
 * Size limit of the database in bytes, beside its payments. Tasks and results, up to 6 MiB each, take most of it. Payments do
 * not count: a seller with millions of them would lose all sessions and results, and free no room by that.
 */
const DATABASE_BYTES_MAX = 4 * 1024 ** 3
/** What a payment or a purchase takes at most, with its places in the indices. They are kept for ever and never trimmed. */
const PAYMENT_ROW_BYTES = 1_500
const TRIM_ROWS = 50
const TRIM_STEPS_MAX = 200
/** What a row takes beside its texts, with its places in the indices. */
export const EXCHANGE_ROW_BYTES = 300

const RECORD = `
  INSERT INTO exchanges
    (agent_id, caller_id, correlation_id, input, output, error, payment_no, created_at, duration_ms)
  VALUES (?, ?, ?, ?, ?, ?, (SELECT no FROM payments WHERE id = ?), ?, ?)`

/** The exchange of a payment that was inserted just now, with the id of its exchange. */
const RECORD_WITH_PAYMENT = `
  INSERT INTO exchanges
    (id, agent_id, caller_id, correlation_id, input, output, error, payment_no, created_at, duration_ms)
  SELECT exchange_id, ?, ?, ?, ?, ?, ?, no, ?, ? FROM payments WHERE no = ${LAST_PAYMENT} ON CONFLICT DO NOTHING`

/** Stores an exchange. A change that goes on with its payment knows it as `LAST_EXCHANGE`. */
export function recordExchange(exchange: NewExchange): Query<number> {
  const { paymentId } = exchange
  return run(
    RECORD,
    ...taskValues(exchange),
    paymentId === undefined ? null : toBytes(paymentId),
    ...timeValues(exchange),
  )
}

/** Stores the exchange of the payment that this change has inserted just before, with an `exchange_id` of `NEXT_EXCHANGE`. */
export function recordWithPayment(exchange: NewExchange): Query<number> {
  return run(RECORD_WITH_PAYMENT, ...taskValues(exchange), ...timeValues(exchange))
}

function taskValues({ agentId, callerId, correlationId, input, output, error }: NewExchange) {
  return [agentId, callerId, correlationId, input, output ?? null, error ?? null] as const
}

function timeValues({ createdAt, durationMs }: NewExchange) {
  return [createdAt, Math.round(durationMs)] as const
}

/** A payment with several exchanges keeps the first. */
const NOTE_IN_PAYMENT = `
  UPDATE payments SET exchange_id = coalesce(exchange_id, ${LAST_EXCHANGE}), receipt = coalesce(?, receipt)
  WHERE id = ? RETURNING *`
const HISTORY = `
  SELECT input, output FROM exchanges
  WHERE agent_id = ? AND caller_id = ? AND output IS NOT NULL ORDER BY id DESC LIMIT ?`
// Checks `payment_no` too, because ids of purged exchanges may be reused.
const PAID_OUTPUT = `
  SELECT e.output FROM payments p JOIN exchanges e ON e.id = p.exchange_id AND e.payment_no = p.no WHERE p.id = ?`
/** Ids rise with time, so the oldest come first. */
const PURGE = `
  DELETE FROM exchanges WHERE id IN (
    SELECT e.id FROM (SELECT id, payment_no, created_at FROM exchanges ORDER BY id LIMIT ?) e
      LEFT JOIN payments p ON p.no = e.payment_no
    WHERE e.created_at < ?
      AND (p.no IS NULL OR (p.state NOT IN ('authorized', 'owed') AND p.updated_at < ?)))`

/** Exchanges that only a session still uses: nobody can claim their results. */
const DROP_OLDEST = `
  DELETE FROM exchanges WHERE id IN (
    SELECT e.id FROM exchanges e LEFT JOIN payments p ON p.no = e.payment_no
    WHERE p.no IS NULL OR p.state IN ('voided', 'unsettled') OR (p.state = 'settled' AND p.updated_at < ?)
    ORDER BY e.id LIMIT ?)
  RETURNING octet_length(input) + coalesce(octet_length(output), 0) AS length`

/** Numbers rise and no row is deleted. */
const KEPT = `SELECT (SELECT coalesce(max(no), 0) FROM payments) AS payments,
  (SELECT coalesce(max(order_no), 0) FROM authorizations) AS purchases`
type KeptRow = { payments: number; purchases: number }

/** Reads one row first: as a rule nothing is old enough. */
function purged(now: UnixMs): Query<void> {
  return steps(function* () {
    const oldest = yield* one<{ created_at: number }>('SELECT created_at FROM exchanges ORDER BY id LIMIT 1')
    const before = now - SESSION_KEPT_MS
    if (oldest === undefined || oldest.created_at >= before) return
    yield* run(PURGE, PURGE_ROWS_MAX, before, now - RESULT_KEPT_MS)
  })
}

function recordedWith(paymentId: Hex, exchange: NewExchange) {
  const receipt = exchange.receipt === undefined ? null : packReceipt(exchange.receipt)
  return together(recordExchange(exchange), one<PaymentRow>(NOTE_IN_PAYMENT, receipt, toBytes(paymentId)))
}

export function createExchanges(database: LedgerDatabase, { bytesMax = DATABASE_BYTES_MAX } = {}): Exchanges {
  return {
    async record(exchange) {
      if (exchange.paymentId === undefined) {
        await database.commit(recordExchange(exchange))
        return undefined
      }
      const { paymentId } = exchange
      const [, payment] = await database.commit(recordedWith(paymentId, exchange), { record: 'payment', id: paymentId })
      return payment && toPayment(payment)
    },
    async history(agentId, callerId, limit) {
      const latest = all<{ input: string; output: string }>(HISTORY, agentId, callerId, limit)
      return (await database.query(latest)).reverse()
    },
    async paidOutput(paymentId) {
      const found = await database.query(one<{ output: string | null }>(PAID_OUTPUT, toBytes(paymentId)))
      return found?.output ?? undefined
    },
    async trim(now) {
      const { payments, purchases } = (await database.query(one<KeptRow>(KEPT)))!
      const limit = bytesMax + (payments + purchases) * PAYMENT_ROW_BYTES
      let used = await database.usedBytes(limit)
      for (let step = 0; step < TRIM_STEPS_MAX && used > limit; step++) {
        const dropped = await database.commit(all<{ length: number }>(DROP_OLDEST, now - RESULT_KEPT_MS, TRIM_ROWS))
        if (dropped.length === 0) return
        for (const { length } of dropped) used -= length + EXCHANGE_ROW_BYTES
      }
    },
    purge: (now) => database.commit(purged(now)),
  }
}
