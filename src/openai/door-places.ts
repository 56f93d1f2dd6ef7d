import type { UnixMs } from '../lib/clock.ts'
import type { Hold } from '../lib/hold.ts'
import { Shares } from '../lib/shares.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { DoorError } from './door-error.ts'

/** Calls of one token: editors and agents send many small ones by themselves. */
const CALLS = { burst: 60, perSecond: 2, keysMax: 2_000 }
/** Calls that run at once: of all clients together, and of one token. One token cannot take the places of others. */
const RUNNING_MAX = { all: 128, each: 64 }

/** How many calls the door serves. */
export class DoorPlaces {
  readonly #rates = new TokenBuckets(CALLS)
  readonly #running = new Shares(RUNNING_MAX)

  /** Takes a place until the end of the block. @throws DoorError 429 */
  enter(tokenId: string, now: UnixMs): Hold {
    const place = this.#running.take(tokenId)
    if (place === 'each') throw tooMany(`${RUNNING_MAX.each} calls at once with one key`)
    if (place === 'all') throw tooMany(`${RUNNING_MAX.all} calls at once`)
    if (this.#rates.take(tokenId, 1, now)) return place
    place[Symbol.dispose]()
    throw tooMany('120 calls a minute with one key')
  }
}

function tooMany(limit: string): DoorError {
  return new DoorError(`the door serves at most ${limit}. Send the request again later`, {
    ...{ status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', headers: { 'retry-after': '5' } },
  })
}
