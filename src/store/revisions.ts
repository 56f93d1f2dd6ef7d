import type { Database } from './database.ts'

const REFUNDS = `
  SELECT (SELECT count(*) FROM payments WHERE refund_tx IS NOT NULL)
    + (SELECT count(*) FROM authorizations WHERE refund_tx IS NOT NULL) AS n`

/** Counts since the process started. */
const noted = new WeakMap<Database, number>()

/**
 * Notes that a payment left a state that counts as final. The chain undid it or showed it later, its result came late,
 * or the operator retries it.
 */
export function noteRevision(database: Database): void {
  noted.set(database, (noted.get(database) ?? 0) + 1)
}

/**
 * Rises when a final payment of either direction changes, also by a refund. Sums over final payments are then outdated.
 */
export function revisionsOf(database: Database): number {
  return database.one<{ n: number }>(REFUNDS)!.n + (noted.get(database) ?? 0)
}
