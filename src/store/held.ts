import type { LedgerDatabase } from './ledger-database.ts'
import { one, type Query } from './query.ts'

/**
 * The rule for `held` (D42): signed, and neither released, refunded, nor shown by the chain. Every sum and list of held
 * payments uses it.
 *
 * A payment is still held after its window by our clock: only the chain says what became of it (T16).
 */
export const IS_HELD = "a.state <> 'released' AND a.confirmed_at IS NULL AND a.refund_tx IS NULL"

/** SQL for all authorizations that may be held, found by the two indices of those. */
export const MAY_BE_HELD = `a.order_no IN (
  SELECT order_no FROM authorizations WHERE state = 'reserved'
  UNION ALL SELECT order_no FROM authorizations WHERE state = 'spent' AND confirmed_at IS NULL)`

/** The same rule, in two parts for the two indices of open payments. */
const HELD = `
  SELECT a.amount, a.network, a.day, a.created_at, a.channel FROM authorizations a WHERE a.state = 'reserved' AND ${IS_HELD}
  UNION ALL
  SELECT a.amount, a.network, a.day, a.created_at, a.channel FROM authorizations a
  WHERE a.state = 'spent' AND a.confirmed_at IS NULL AND ${IS_HELD}`
const SUM = `SELECT CAST(coalesce(sum(amount), 0) AS TEXT) AS held FROM (${HELD}) AS h`
/** `?2`: a time before which nothing of the period was signed. */
const IN_PERIOD = `${SUM} WHERE created_at >= ?2 AND substr(day, 1, length(CAST(?1 AS TEXT))) = CAST(?1 AS TEXT)`
/** What a channel pays has left the wallet with its deposit. */
const ON_NETWORK = `${SUM} WHERE network = ? AND channel IS NULL`
const DAY_MS = 24 * 60 * 60 * 1000

/** What open authorizations may still take from the wallet on one network, in atomic units. */
export function heldByAuthorizations(database: LedgerDatabase, network: string): Promise<bigint> {
  return database.query(sumOf(one(ON_NETWORK, network)))
}

/**
 * What is held of a UTC day, `2026-11-21`, or of a month, `2026-11`, in atomic units.
 *
 * Counts every network, because the limits of the budget do.
 */
export function heldInPeriod(period: string): Query<bigint> {
  return sumOf(one(IN_PERIOD, period, Date.parse(period) - DAY_MS))
}

function sumOf(sum: Query<{ held: string } | undefined>): Query<bigint> {
  return sum.map((row) => BigInt(row!.held))
}
