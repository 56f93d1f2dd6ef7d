import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'

/** Payments that share an error. */
export type FailedPayments = { error: string; count: number; amount: bigint; newestAt: UnixMs }
/** Recent runs of an agent. `newest` is the number of the last exchange. */
type LateRuns = { agentId: string; calls: number; failed: number; newest: number }
export type Dismissal = { mark: string; at: UnixMs }

/** The data behind alarms, and the alarms that the operator has dismissed. */
export interface AlarmStore {
  /** Work that was never paid, grouped by error, newest first. `unpaidSince`: one error, given up after `since`. */
  unpaid(): FailedPayments[]
  unpaidSince(error: string, since: UnixMs): FailedPayments | undefined
  /** Owed payments whose attempts fail, grouped by error. */
  stuck(): FailedPayments[]
  /** The latest runs of all agents, grouped by agent. `after`: exchanges up to this number do not count. */
  lateRuns(after: (agentId: string) => number): LateRuns[]
  dismissals(): Map<string, Dismissal>
  /** Durable when it resolves. */
  dismiss(id: string, dismissal: Dismissal): Promise<void>
  forget(ids: readonly string[]): Promise<void>
}

const GROUPS_MAX = 1_000
const RUNS_LOOKED_AT = 1_000
/** Dismissals kept. Beyond it the oldest are dropped. */
const DISMISSALS_MAX = 10_000
/**
 * Skips payments with one failed attempt: the second follows soon. Attempts do not count while no facilitator answers.
 */
const STUCK = `state IN ('authorized', 'owed') AND state = 'owed' AND error IS NOT NULL AND attempts <> 1`
const UNPAID = `state = 'unsettled' AND exchange_id IS NOT NULL`
const SUMS = `coalesce(error, '') AS error, count(*) AS count, CAST(sum(amount) AS TEXT) AS amount, max(updated_at) AS newest`
const byReason = (where: string) =>
  `SELECT ${SUMS} FROM payments WHERE ${where} GROUP BY error ORDER BY newest DESC LIMIT ${GROUPS_MAX}`
const UNPAID_SINCE = `SELECT ${SUMS} FROM payments WHERE ${UNPAID} AND coalesce(error, '') = ? AND updated_at > ?`
// Both queries avoid reading the texts of exchanges, which are large.
const LATE = `SELECT id, agent_id FROM exchanges ORDER BY id DESC LIMIT ${RUNS_LOOKED_AT}`
const LATE_FAILED = `SELECT id FROM exchanges WHERE error IS NOT NULL AND id >= ?`

type SumsRow = { error: string; count: number; amount: string | null; newest: number }

export function createAlarmStore(database: Database): AlarmStore {
  const sums = (sql: string, ...values: (string | number)[]): FailedPayments[] =>
    database
      .all<SumsRow>(sql, ...values)
      .filter(({ count }) => count > 0)
      .map(({ error, count, amount, newest }) => ({ error, count, amount: BigInt(amount ?? 0), newestAt: newest }))

  return {
    unpaid: () => sums(byReason(UNPAID)),
    unpaidSince: (error, since) => sums(UNPAID_SINCE, error, since)[0],
    stuck: () => sums(byReason(STUCK)),
    lateRuns(after) {
      const late = database.all<{ id: number; agent_id: string }>(LATE)
      const failed = new Set(database.all<{ id: number }>(LATE_FAILED, late.at(-1)?.id ?? 0).map(({ id }) => id))
      const byAgent = new Map<string, LateRuns>()
      const newest = late[0]?.id ?? 0
      for (const { id, agent_id: agentId } of late) {
        const from = after(agentId)
        // Ids start again after the table was emptied.
        if (id <= from && from <= newest) continue
        const runs = byAgent.get(agentId) ?? { agentId, calls: 0, failed: 0, newest: id }
        runs.calls += 1
        if (failed.has(id)) runs.failed += 1
        byAgent.set(agentId, runs)
      }
      return [...byAgent.values()]
    },
    dismissals() {
      const rows = database.all<Dismissal & { id: string }>('SELECT id, mark, dismissed_at AS at FROM alarm_dismissals')
      return new Map(rows.map(({ id, ...dismissal }) => [id, dismissal]))
    },
    dismiss: (id, { mark, at }) =>
      database.write(() => {
        database.run('INSERT OR REPLACE INTO alarm_dismissals (id, mark, dismissed_at) VALUES (?, ?, ?)', id, mark, at)
        database
          .prepare(
            `DELETE FROM alarm_dismissals WHERE id IN
               (SELECT id FROM alarm_dismissals ORDER BY dismissed_at DESC LIMIT -1 OFFSET ${DISMISSALS_MAX})`,
          )
          .run()
      }),
    forget: (ids) =>
      database.write(() => {
        for (const id of ids) database.run('DELETE FROM alarm_dismissals WHERE id = ?', id)
      }),
  }
}
