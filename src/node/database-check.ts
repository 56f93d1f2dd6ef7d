import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'
import { within } from '../lib/wait.ts'
import type { LedgerLatency } from '../store/latency.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import { nothing, one } from '../store/query.ts'
import { StoreError } from '../store/store-error.ts'

/** The limit for a database that does not answer. Shorter than the limit of reads, because a person waits for the diagnosis. */
const DATABASE_MS_MAX = 2500
/** A paid call waits for several round trips to the database. */
const LATENCY_MS_MAX = 20
/** Answers of the database that are timed. */
const SAMPLES = 7
/** Timing ends after this time: the answers of a slow database differ little from one another. */
const SAMPLING_MS_MAX = 1000
const FIX_DISK = 'free some space on the disk of the data directory; the node goes on by itself'
const FIX = 'see docs/operations.md, PostgreSQL; the node goes on when the database is back'

export type DatabaseCheckDeps = {
  /** Where the ledger is, if it is in PostgreSQL, and a change of nothing. */
  server: string | undefined
  database: Pick<LedgerDatabase, 'query' | 'commit'>
  latency?(): Pick<LedgerLatency, 'refused'> | undefined
}

type DatabaseLook = {
  /** Whether it answers at all, known after its first answer. */
  isThere: Promise<boolean>
  finding: Promise<Finding>
}

/** Reads, and commits an empty change, which shows whether this process still holds the ledger. Refused writes show a full disk. */
export function lookAtDatabase({ server, database, latency }: DatabaseCheckDeps): DatabaseLook {
  if (server === undefined) {
    const refused = latency?.()?.refused
    const finding = refused === undefined ? skip('the ledger is in stoa.db') : fail(refusedText(refused), FIX_DISK)
    return { isThere: Promise.resolve(true), finding: Promise.resolve(finding) }
  }
  const { times, first, reads } = timed(() => database.query(one('SELECT 1 AS one')))
  // At the same time as the reads, because one by one they take long over a slow network.
  const changed = database.commit(nothing(undefined))
  const isThere = within(DATABASE_MS_MAX, first).catch(() => false)
  async function judged(): Promise<Finding> {
    const isDone = await within(DATABASE_MS_MAX, Promise.all([reads, changed]))
    if (times.length === 0) return fail(`${server} is away: no answer within ${DATABASE_MS_MAX / 1000} s`, FIX)
    const refused = latency?.()?.refused
    if (refused !== undefined) return fail(refusedText(refused), FIX)
    const ms = medianOf(times)
    const text = `${server} answers in ${ms.toFixed(ms < 10 ? 1 : 0)} ms`
    if (!isDone) {
      const fix = 'run the node near the database, and look at the load, the disk and the locks of PostgreSQL'
      return fail(`${text}, but is slow: it took no change within ${DATABASE_MS_MAX / 1000} s`, fix)
    }
    if (ms <= LATENCY_MS_MAX) return ok(`${text} and takes changes`)
    const fix = 'run the node near the database, and look at the load of PostgreSQL and at the network to it'
    return warn(`${text} and takes changes, but is slow: each paid call waits for several answers`, fix)
  }
  const finding = judged().catch((error: unknown) => {
    if (!(error instanceof StoreError)) throw error
    return fail(error.message, FIX)
  })
  return { isThere, finding }
}

function refusedText({ message }: StoreError): string {
  return `a change was refused within the last minute: ${message}`
}

/** Times answers one after the other. One may have waited for a busy process, or for a new connection. */
function timed(ask: () => Promise<unknown>) {
  const times: number[] = []
  const begun = performance.now()
  const again = async () => {
    const since = performance.now()
    await ask()
    times.push(performance.now() - since)
  }
  const first = again()
  const reads = first.then(async () => {
    while (times.length < SAMPLES && performance.now() - begun < SAMPLING_MS_MAX) await again()
  })
  return { times, first, reads }
}

function medianOf(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}
