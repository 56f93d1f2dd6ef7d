import type { LedgerDatabase } from './ledger-database.ts'
import { lock, type Query, run, steps } from './query.ts'

/**
 * Work of a process that has ended, or of none. A process ends with its lease (store/postgres/holder.ts), and writes
 * nothing after that. So only one process can change a row under this condition, and that one goes on with the work.
 */
export const LEFT_BEHIND = '(owner IS NULL OR owner NOT IN (SELECT id FROM processes WHERE ended_at IS NULL))'

/** Taken by each process that joins. */
export const JOINING = 'holder'

/**
 * Takes over work that was left behind. No process may join meanwhile: after PostgreSQL has waited for a row, a statement reads
 * that row again, but still sees the old list of processes. It would take the work of one that has just joined.
 */
export function takingOver<T>(change: Query<T>): Query<T> {
  return steps(function* () {
    yield* lock(JOINING)
    return yield* change
  })
}

/** Joins as the only process: the one that had the SQLite file before has ended. @param process a UUID */
export const joinAlone = (process: string) =>
  `BEGIN IMMEDIATE; DELETE FROM processes; INSERT INTO processes (id) VALUES ('${process}'); COMMIT`

const TAKE_ROLE = `
  INSERT INTO roles (name, owner) VALUES (?1, ?2)
  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner WHERE roles.owner = ?2 OR
    roles.owner NOT IN (SELECT id FROM processes WHERE ended_at IS NULL)`

/** Work that one process does for all that share a ledger. The process that has a role keeps it until the process ends. */
type Role = 'housekeeping' | 'webhooks' | 'channels'

/** Takes a role, unless another living process has it. @returns true if this process has it */
export async function takeRole(database: LedgerDatabase, role: Role): Promise<boolean> {
  return (await database.commit(run(TAKE_ROLE, role, database.process))) === 1
}
