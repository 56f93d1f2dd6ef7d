import type { Database } from './database.ts'

const REFUNDS = `
  SELECT (SELECT count(*) FROM payments WHERE refund_tx IS NOT NULL)
    + (SELECT count(*) FROM authorizations WHERE refund_tx IS NOT NULL) AS n`

/** Since the process began. */
const noted = new WeakMap<Database, number>()

/**
 * Notes that a payment has left a state which counts as final: the chain took it back or showed it after all, its result came
 * late, or its operator has it tried again.
 */
export function noteRevision(database: Database): void {
  noted.set(database, (noted.get(database) ?? 0) + 1)
}

/** Rises whenever a final payment of either direction has changed, also by a refund: sums over final payments are wrong then. */
export function revisionsOf(database: Database): number {
  return (database.prepare(REFUNDS).get() as { n: number }).n + (noted.get(database) ?? 0)
}
