import { reasonOf } from '../lib/errors.ts'
import { within } from '../lib/wait.ts'
import { isLedgerAway } from '../store/store-error.ts'

/** What was read, or what was read before the ledger went away. */
type LastKnown<T> = { value: T | undefined /** Why this is not what is there now. */; away: string | undefined }

/** Longer than a working ledger takes, and short enough for a person who waits for the status. */
const WAIT_MS = 2_000
/** The same while the ledger is known to be away. */
const AWAY_MS = 100

/**
 * Reads from the ledger for people, who are not kept waiting for a database that is away.
 *
 * @throws what `read` throws, unless the ledger is away
 */
export function lastKnown<T>(read: () => Promise<T>): () => Promise<LastKnown<T>> {
  let last: LastKnown<T> = { value: undefined, away: undefined }
  /** One read at a time waits for a ledger that is away. */
  let waiting: Promise<void> | undefined
  async function look(): Promise<void> {
    try {
      last = { value: await read(), away: undefined }
    } catch (error) {
      if (!isLedgerAway(error)) throw error
      last = { value: last.value, away: reasonOf(error) }
    } finally {
      waiting = undefined
    }
  }
  return async () => {
    const isAway = last.away !== undefined
    const looking = (isAway && waiting) || look()
    waiting = looking
    const isDone = await within(isAway ? AWAY_MS : WAIT_MS, looking)
    if (!isDone && last.away === undefined) last = { value: last.value, away: `no answer within ${WAIT_MS / 1000} s` }
    return last
  }
}
