import type { UnixMs } from '../lib/clock.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, type Query, run, together, type Value } from './query.ts'

/** Payments that share an error. */
export type FailedPayments = { error: string; count: number; amount: bigint; newestAt: UnixMs }
/** Recent runs of an agent. `newest` is the number of the last exchange. */
type LateRuns = { agentId: string; calls: number; failed: number; newest: number }
export type Dismissal = { mark: string; at: UnixMs }
/** `heldAt`: when a process last saw that the alarm holds. */
type StoredDismissal = Dismissal & { heldAt: UnixMs }

/** The data behind alarms, and the alarms that the operator has dismissed. */
export interface AlarmStore {
  /** Work that was never paid, grouped by error, newest first. `unpaidSince`: one error, given up after `since`. */
  unpaid(): Promise<FailedPayments[]>
  unpaidSince(error: string, since: UnixMs): Promise<FailedPayments | undefined>
  /** Owed payments whose attempts fail, grouped by error. */
  stuck(): Promise<FailedPayments[]>
  /** The latest runs that were not canceled, grouped by agent. `after`: exchanges up to this number do not count. */
  lateRuns(after: (agentId: string) => number): Promise<LateRuns[]>
  dismissals(): Promise<Map<string, StoredDismissal>>
  /** Durable when it resolves. */
  dismiss(id: string, dismissal: Dismissal): Promise<void>
  /** Notes that dismissed alarms hold. */
  hold(ids: readonly string[], now: UnixMs): Promise<void>
  /** Deletes dismissals, unless the alarms were dismissed again or were seen to hold since. */
  forget(dismissals: ReadonlyMap<string, StoredDismissal>): Promise<void>
}

const GROUPS_MAX = 1_000
const RUNS_LOOKED_AT = 1_000
/** Dismissals kept. Beyond it the oldest are dropped. */
const DISMISSALS_MAX = 10_000
/**
 * Skips payments with one failed attempt: the second follows soon. Attempts do not count while no facilitator answers. The
 * first condition is worded like the index of open payments, so that SQLite uses it.
 */
const STUCK = `state IN ('authorized', 'owed') AND state = 'owed' AND error IS NOT NULL AND attempts <> 1`
const UNPAID = `state = 'unsettled' AND exchange_id IS NOT NULL`
const SUMS = `coalesce(error, '') AS error, count(*) AS count, CAST(sum(amount) AS TEXT) AS amount, max(updated_at) AS newest`
const byReason = (where: string) =>
  `SELECT ${SUMS} FROM payments WHERE ${where} GROUP BY coalesce(error, '') ORDER BY newest DESC LIMIT ${GROUPS_MAX}`
const UNPAID_SINCE = `SELECT ${SUMS} FROM payments WHERE ${UNPAID} AND coalesce(error, '') = ? AND updated_at > ?
  GROUP BY coalesce(error, '')`
// These queries avoid reading the texts of exchanges, which are large.
const LATE = `SELECT id, agent_id FROM exchanges ORDER BY id DESC LIMIT ${RUNS_LOOKED_AT}`
const FIRST_LATE = `(SELECT coalesce(min(id), 0) FROM (SELECT id FROM exchanges ORDER BY id DESC LIMIT ${RUNS_LOOKED_AT}) AS late)`
const LATE_FAILED = `SELECT id FROM exchanges WHERE error IS NOT NULL AND id >= ${FIRST_LATE}`
const LATE_CANCELED = `SELECT id FROM exchanges WHERE error = '${RUN_CANCELED}' AND id >= ${FIRST_LATE}`
const DISMISSALS =
  'SELECT id, mark, dismissed_at AS at, coalesce(held_at, dismissed_at) AS "heldAt" FROM alarm_dismissals'
const DISMISS = `
  INSERT INTO alarm_dismissals (id, mark, dismissed_at, held_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE
  SET mark = excluded.mark, dismissed_at = excluded.dismissed_at, held_at = excluded.held_at`
const TRIM = `
  DELETE FROM alarm_dismissals WHERE id NOT IN
    (SELECT id FROM alarm_dismissals ORDER BY dismissed_at DESC, id LIMIT ${DISMISSALS_MAX})`
const HOLD = 'UPDATE alarm_dismissals SET held_at = ? WHERE id = ?'
const FORGET = 'DELETE FROM alarm_dismissals WHERE id = ? AND dismissed_at = ? AND coalesce(held_at, dismissed_at) = ?'

type SumsRow = { error: string; count: number; amount: string; newest: number }

export function createAlarmStore(database: LedgerDatabase): AlarmStore {
  return {
    unpaid: () => database.query(sums(byReason(UNPAID))),
    unpaidSince: async (error, since) => (await database.query(sums(UNPAID_SINCE, error, since)))[0],
    stuck: () => database.query(sums(byReason(STUCK))),
    async lateRuns(after) {
      const [late, failed, canceled] = await database.query(
        together(
          all<{ id: number; agent_id: string }>(LATE),
          all<{ id: number }>(LATE_FAILED),
          all<{ id: number }>(LATE_CANCELED),
        ),
      )
      return runsOf(late, { failed: idsOf(failed), canceled: idsOf(canceled), after })
    },
    async dismissals() {
      const rows = await database.query(all<StoredDismissal & { id: string }>(DISMISSALS))
      return new Map(rows.map(({ id, ...dismissal }) => [id, dismissal]))
    },
    async dismiss(id, { mark, at }) {
      await database.commit(together(run(DISMISS, id, mark, at, at), run(TRIM)))
    },
    async hold(ids, now) {
      await database.commit(together(...ids.map((id) => run(HOLD, now, id))))
    },
    async forget(dismissals) {
      const forgotten = [...dismissals].map(([id, { at, heldAt }]) => run(FORGET, id, at, heldAt))
      await database.commit(together(...forgotten))
    },
  }
}

function sums(sql: string, ...values: Value[]): Query<FailedPayments[]> {
  return all<SumsRow>(sql, ...values).map((rows) =>
    rows.map(({ error, count, amount, newest }) => ({ error, count, amount: BigInt(amount), newestAt: newest })),
  )
}

const idsOf = (rows: readonly { id: number }[]): ReadonlySet<number> => new Set(rows.map(({ id }) => id))

type RunEnds = { failed: ReadonlySet<number>; canceled: ReadonlySet<number>; after(agentId: string): number }

/** A run that its caller canceled says nothing about its agent. */
function runsOf(late: readonly { id: number; agent_id: string }[], { failed, canceled, after }: RunEnds): LateRuns[] {
  const byAgent = new Map<string, LateRuns>()
  const newest = late[0]?.id ?? 0
  for (const { id, agent_id: agentId } of late) {
    if (canceled.has(id)) continue
    const from = after(agentId)
    // Ids start again after the table was emptied.
    if (id <= from && from <= newest) continue
    const runs = byAgent.get(agentId) ?? { agentId, calls: 0, failed: 0, newest: id }
    runs.calls += 1
    if (failed.has(id)) runs.failed += 1
    byAgent.set(agentId, runs)
  }
  return [...byAgent.values()]
}
