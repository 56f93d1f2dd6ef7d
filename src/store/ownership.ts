import type { LedgerDatabase } from './ledger-database.ts'
import { lock, type Query, run, steps } from './query.ts'

/**
 * Work of a process that has ended, or of none. A process ends with its lease (store/postgres/holder.ts), and writes
 * nothing after that. So whoever changes a row under this condition is the only one that goes on with it.
 */
export const LEFT_BEHIND = '(owner IS NULL OR owner NOT IN (SELECT id FROM processes WHERE ended_at IS NULL))'

/** Taken by each process that joins. */
export const JOINING = 'holder'

/**
 * Takes work over that was left behind. Nobody joins meanwhile: a statement of PostgreSQL that waited for a row looks at that
 * row anew, but sees the processes of before. It would take the work of one that has joined since.
 */
export function takingOver<T>(change: Query<T>): Query<T> {
  return steps(function* () {
    yield* lock(JOINING)
    return yield* change
  })
}

/** Whoever had the file of SQLite before has ended. @param process a UUID */
export const joinAlone = (process: string) =>
  `BEGIN IMMEDIATE; DELETE FROM processes; INSERT INTO processes (id) VALUES ('${process}'); COMMIT`

const TAKE_ROLE = `
  INSERT INTO roles (name, owner) VALUES (?1, ?2)
  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner WHERE roles.owner = ?2 OR
    roles.owner NOT IN (SELECT id FROM processes WHERE ended_at IS NULL)`

/** What one process does for all that share a ledger. Who has a role keeps it until it ends. */
type Role = 'housekeeping' | 'webhooks' | 'channels'

/** Whether this process has a role. Takes the role if nobody has it. */
export async function hasRole(database: LedgerDatabase, role: Role): Promise<boolean> {
  return (await database.commit(run(TAKE_ROLE, role, database.process))) === 1
}
