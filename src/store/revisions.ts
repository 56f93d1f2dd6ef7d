import { one, type Query, run } from './query.ts'

const REVISIONS = `
  SELECT (SELECT count(*) FROM payments WHERE refund_tx IS NOT NULL)
    + (SELECT count(*) FROM authorizations WHERE refund_tx IS NOT NULL) + (SELECT noted FROM revisions) AS n`

/**
 * Notes that a payment left a state that counts as final. The chain undid it or showed it later, its result came late,
 * or the operator retries it. Part of the change itself, so that every process that reads the change reads the note.
 */
export function noteRevision(): Query<number> {
  return run('UPDATE revisions SET noted = noted + 1')
}

/**
 * Rises when a final payment of either direction changes, also by a refund. Sums over final payments are then outdated.
 */
export function revisions(): Query<number> {
  return one<{ n: number }>(REVISIONS).map((row) => Number(row!.n))
}
