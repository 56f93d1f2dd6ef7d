import { BoundedMap } from '../lib/bounded-map.ts'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Listing } from '../schema/listing.ts'
import type { Reputation } from '../schema/standing.ts'

const FRESH_MS = 10 * 60 * 1000
/** Wait before retrying a read that failed. */
const RETRY_MS = 60 * 1000
/** Tokens whose reputation is cached. Beyond it the oldest entry is dropped. */
const KNOWN_MAX = 2_000
/** Chain reads at the same time. */
const ASKED_MAX = 4
/** Tokens that wait for a read. Beyond it a later request asks again. */
const WAITING_MAX = 200

/**
 * Reputation of listed agents from the chain, as far as it is known.
 *
 * A list of agents does not wait for the chain. It shows what is cached and starts to read the rest for later requests.
 */
export function knownReputation(deps: {
  clock: Clock
  read(listing: Listing): Promise<Reputation | undefined>
}): (listing: Listing) => Reputation | undefined {
  const known = new BoundedMap<string, { reputation: Reputation | undefined; until: UnixMs }>(KNOWN_MAX)
  const waiting = new Map<string, Listing>()
  let asking = 0

  function next(): void {
    const [key, listing] = waiting.entries().next().value ?? []
    if (key === undefined || listing === undefined || asking >= ASKED_MAX) return
    waiting.delete(key)
    asking++
    deps
      .read(listing)
      .then(
        (reputation) => keep(key, reputation, FRESH_MS),
        () => keep(key, known.get(key)?.reputation, RETRY_MS),
      )
      .finally(() => {
        asking--
        next()
      })
  }

  function keep(key: string, reputation: Reputation | undefined, ms: number): void {
    known.set(key, { reputation, until: deps.clock.now() + ms })
  }

  return (listing) => {
    if (listing.token_id === undefined) return undefined
    // The key includes the payee, because another payee may not own the token.
    const key = JSON.stringify([listing.token_id, listing.pay_to, listing.network])
    const entry = known.get(key)
    if ((entry === undefined || entry.until <= deps.clock.now()) && waiting.size < WAITING_MAX) {
      if (entry !== undefined) entry.until = deps.clock.now() + RETRY_MS
      else keep(key, undefined, RETRY_MS)
      waiting.set(key, listing)
      next()
    }
    return entry?.reputation
  }
}
