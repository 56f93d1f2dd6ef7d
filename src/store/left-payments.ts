import type { UnixMs } from '../lib/clock.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { UNRUN } from './payment-row.ts'
import { type Query, run, together } from './query.ts'
import type { TaskEnd } from './sent-messages.ts'

/** Older work is run only when its buyer asks. */
const RUN_SINCE_MS = 24 * 60 * 60 * 1000
/** Settled work that one change defers. What is more is deferred by the next change. */
export const DEFERRED_MAX = 1_000

const RUNNING = `state IN ('authorized', 'owed') AND state = 'authorized' AND ${LEFT_BEHIND}`
const VOID_RUNNING = `UPDATE payments SET state = 'voided', error = ?, updated_at = ? WHERE ${RUNNING}`
/** Such a run leaves no exchange, so the message of its A2A task says how it ended. */
const END_TASKS = `
  UPDATE sent_messages SET ended = ?, waits = NULL
  WHERE ended IS NULL AND task_id IN (SELECT correlation_id FROM payments WHERE door = 'a2a' AND ${RUNNING})`
/** Settled work whose buyers may have got no answer at all. What was about to be paid back waits for its buyer. */
const DEFER_SETTLED = `
  UPDATE payments SET deferred = 1 WHERE deferred IS NULL AND running < 2 AND ${LEFT_BEHIND} AND id IN (
    SELECT id FROM payments INDEXED BY payments_unrun
    WHERE ${UNRUN} AND deferred IS NULL AND ${LEFT_BEHIND} AND created_at >= ? ORDER BY no LIMIT ?)`
/**
 * The attempts that owed payments waited for ended with the process that made them. So did the calls that would have run
 * the work of those that settle first: once they have settled, it is run like that of a buyer that was answered 2007.
 */
const TAKE_OVER_OWED = `
  UPDATE payments SET owner = ?, next_attempt_at = ?, running = 0,
    deferred = CASE WHEN deferred IS NULL AND task IS NOT NULL AND exchange_id IS NULL AND created_at >= ? THEN 1 ELSE deferred END
  WHERE state IN ('authorized', 'owed') AND state = 'owed' AND ${LEFT_BEHIND}`
const TAKE_OVER_UNRUN = `
  UPDATE payments SET owner = ?, running = 0
  WHERE deferred = 1 AND task IS NOT NULL AND exchange_id IS NULL AND ${LEFT_BEHIND}`
const TAKE_OVER_LOOKS = `UPDATE payments SET owner = ?, running = 0 WHERE look_at IS NOT NULL AND ${LEFT_BEHIND}`

/**
 * Takes over the payments of processes that have ended. In the same transaction the new owner voids interrupted runs and defers
 * settled work, so that no process finds a payment left behind.
 *
 * @returns how many each statement changed: first the messages of tasks that ended, then payments that are voided, then those
 * that are deferred. `DEFERRED_MAX` of these: there may be more
 */
export function takeOverPayments(
  process: string,
  error: string,
  now: UnixMs,
): Query<readonly [number, number, number, ...number[]]> {
  const since = now - RUN_SINCE_MS
  const ended: TaskEnd = { state: 'failed', text: error, at: now }
  return together(
    run(END_TASKS, JSON.stringify(ended)),
    run(VOID_RUNNING, error, now),
    run(DEFER_SETTLED, since, DEFERRED_MAX),
    run(TAKE_OVER_OWED, process, now, since),
    run(TAKE_OVER_UNRUN, process),
    run(TAKE_OVER_LOOKS, process),
  )
}
