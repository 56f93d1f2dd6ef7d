import type { LedgerDatabase } from '../ledger-database.ts'
import { all, one, run, steps, together } from '../query.ts'
import type { SharedChange } from '../shared-changes.ts'
import { NOW } from './holder.ts'

/** `isMissed`: some changes were deleted before they were read, so everything may have changed. */
type ChangesRead = { changes: SharedChange[]; isMissed: boolean; hasMore: boolean }

/** What other processes have noted in a shared ledger since this one last looked. */
export type ChangeLog = {
  /** The first call finds nothing: it takes the position from which this process follows the others. */
  read(): Promise<ChangesRead>
  /** Deletes what is too old or too much. */
  purge(): Promise<void>
}

type ChangeLogOptions = {
  /** How many changes of a process are kept. */
  keptMax?: number
  /** How many changes of a process are read at once. */
  pageMax?: number
}

/** How long changes are kept, in ms. */
const KEPT_MS = 60 * 60_000

type HeadRow = { id: string; purged: number; head: number }
type ChangeRow = SharedChange & { no: number }
type Position = { no: Map<string, number>; at: number }

const GET_TIME = `SELECT ${NOW} AS ms`
/** A process that ended longer ago than its changes are kept has none. */
const HEADS = `
  SELECT p.id, p.changes_purged AS purged, coalesce((SELECT max(c.no) FROM changes c WHERE c.process = p.id), 0) AS head
  FROM processes p WHERE p.id <> ? AND (p.ended_at IS NULL OR p.ended_at > ${NOW} - ?)`
const READ = 'SELECT no, record, id FROM changes WHERE process = ? AND no > ? ORDER BY no LIMIT ?'
const MARK_PURGED = `
  UPDATE processes SET changes_purged = coalesce((SELECT max(no) FROM changes WHERE process = ?1 AND (at < ${NOW} - ?2 OR no <=
    (SELECT c.no FROM changes c WHERE c.process = ?1 ORDER BY c.no DESC LIMIT 1 OFFSET ?3))), changes_purged)
  WHERE id = ?1`
const PURGE = 'DELETE FROM changes WHERE process = ?1 AND no <= (SELECT changes_purged FROM processes WHERE id = ?1)'
const PURGE_ENDED = `
  DELETE FROM changes WHERE process NOT IN (SELECT id FROM processes WHERE ended_at IS NULL OR ended_at > ${NOW} - ?)`

/**
 * Reads the changes of each other process from where it was read before.
 *
 * Numbers of different processes become visible out of order: a transaction that began first may be committed last. Those
 * of one process do not, since it commits one transaction after the other. So one position for each process loses nothing.
 */
export function createChangeLog(
  database: LedgerDatabase,
  { keptMax = 20_000, pageMax = 1_000 }: ChangeLogOptions = {},
): ChangeLog {
  const { process } = database
  let position: Position | undefined

  /** The heads and the changes after a position, from one state of the ledger. */
  const after = (from: Position | undefined) =>
    steps(function* () {
      const [time, heads] = yield* together(one<{ ms: number }>(GET_TIME), all<HeadRow>(HEADS, process, KEPT_MS))
      const last = (id: string) => from?.no.get(id) ?? 0
      const isLate = from !== undefined && time!.ms - from.at > KEPT_MS / 2
      const isMissed = isLate || (from !== undefined && heads.some(({ id, purged }) => purged > last(id)))
      const ahead = from === undefined || isMissed ? [] : heads.filter(({ id, head }) => head > last(id))
      const pages = yield* together(...ahead.map(({ id }) => all<ChangeRow>(READ, id, last(id), pageMax)))
      return { at: time!.ms, heads, isMissed, ahead, pages }
    })

  return {
    async read() {
      const from = position
      const { at, heads, isMissed, ahead, pages } = await database.query(after(from))
      if (from === undefined || isMissed) {
        position = { at, no: new Map(heads.map(({ id, head, purged }) => [id, Math.max(head, purged)])) }
        return { changes: [], isMissed, hasMore: false }
      }
      const reached = ahead.map(({ id }, index) => [id, pages[index]!.at(-1)!.no] as const)
      const kept = heads.map(({ id }) => [id, from.no.get(id) ?? 0] as const)
      position = { at, no: new Map([...kept, ...reached]) }
      const changes = pages.flat().sort((a, b) => a.no - b.no)
      return {
        changes: changes.map(({ record, id }) => ({ record, id })),
        isMissed: false,
        hasMore: pages.some(({ length }) => length === pageMax),
      }
    },
    async purge() {
      await database.commit(
        together(run(MARK_PURGED, process, KEPT_MS, keptMax), run(PURGE, process), run(PURGE_ENDED, KEPT_MS)),
      )
    },
  }
}
