import { nothing, type Query, run, steps, together } from './query.ts'

/** What the other processes of a shared ledger are told of a change: enough to look the record up again. */
export type SharedChange = {
  /**
   * - `purchase`: the payment of an order, by the id of the order
   * - `work`: asks the process that works on this order to look at it
   * - `run`: settled work, by its payment, was given to another process
   * - `task`: asks the process that works on this A2A task to cancel it
   * - `channel`: asks the process that has this payment channel to give it up
   * - `leaving`: a payment channel of this buyer, by its id, is to be left, or is closed
   * - `all`: more has changed than can be named
   */
  record:
    | 'payment'
    | 'order'
    | 'purchase'
    | 'work'
    | 'run'
    | 'workflow'
    | 'approval'
    | 'webhook'
    | 'worker'
    | 'budget'
    | 'task'
    | 'channel'
    | 'leaving'
    | 'all'
  id: string
}
type OfOrder = 'order' | 'purchase' | 'work'
/** A change that is to be noted. An order may be named by its approval. */
export type Noted = SharedChange | { record: OfOrder; approvalId: string }

const NOTE = 'INSERT INTO changes (process, record, id) VALUES (?, ?, ?)'
const NOTE_BY_APPROVAL = `
  INSERT INTO changes (process, record, id) SELECT CAST(? AS TEXT), CAST(? AS TEXT), order_id FROM approvals WHERE id = ?`

/**
 * Notes changes for the other processes, in the same transaction as the changes.
 *
 * A process commits one transaction after the other, so its notes become visible in the order of their numbers. Notes of
 * different processes do not: a reader keeps a position for each process (store/postgres/change-log.ts).
 */
export function noteChanges(process: string, changes: readonly Noted[]): Query<unknown> {
  if (changes.length === 0) return nothing(undefined)
  const noted = (change: Noted) => {
    if ('approvalId' in change) return run(NOTE_BY_APPROVAL, process, change.record, change.approvalId)
    return run(NOTE, process, change.record, change.id)
  }
  return together(...changes.map(noted))
}

/** Changes of many records, by how many each statement changed. If there are any, the others read everything again. */
export function notedIfAny<Counts extends readonly number[]>(
  change: Query<Counts>,
  { note }: { note(...noted: readonly Noted[]): Query<unknown> },
): Query<Counts> {
  return steps(function* () {
    const counts = yield* change
    if (counts.some((count) => count > 0)) yield* note({ record: 'all', id: '' })
    return counts
  })
}
