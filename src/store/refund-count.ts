import type { Database } from './database.ts'

const COUNT = `
  SELECT (SELECT count(*) FROM payments WHERE refund_tx IS NOT NULL)
    + (SELECT count(*) FROM authorizations WHERE refund_tx IS NOT NULL) AS n`

/** How many payments of either direction were paid back. */
export function countRefunds(database: Database): number {
  return (database.prepare(COUNT).get() as { n: number }).n
}
