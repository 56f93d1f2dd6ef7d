import type { UnixMs } from '../lib/clock.ts'
import type { Hold } from '../lib/hold.ts'
import { Shares } from '../lib/shares.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { DoorError } from './door-error.ts'

/** Calls of one token: editors and agents send many small ones by themselves. */
const CALLS = { burst: 60, perSecond: 2, keysMax: 2_000 }
/** Calls that run at once: of all clients together, and of one token. One token cannot take all slots. */
const RUNNING_MAX = { all: 128, each: 64 }

/** Bytes of answers that their clients have not read: of one token, and of all. One answer has at most 4 MiB. */
const UNREAD_BYTES_MAX = { each: 32 * 1024 * 1024, all: 128 * 1024 * 1024 }

/** Limits how many calls the door serves, and how many bytes of their answers wait in memory. */
export class DoorLimits {
  readonly #rates = new TokenBuckets(CALLS)
  readonly #running = new Shares(RUNNING_MAX)
  readonly #unread = new Shares(UNREAD_BYTES_MAX)

  /** Takes a slot until the end of the block. @throws DoorError 429 */
  admit(tokenId: string, now: UnixMs): Hold {
    const slot = this.#running.take(tokenId)
    if (slot === 'each') throw tooMany(`${RUNNING_MAX.each} calls at once with one key`)
    if (slot === 'all') throw tooMany(`${RUNNING_MAX.all} calls at once`)
    if (this.#rates.take(tokenId, 1, now)) return slot
    slot[Symbol.dispose]()
    throw tooMany('120 calls a minute with one key')
  }

  /** Takes room for unread bytes of an answer. @returns the limit that refuses, if there is no room */
  room(tokenId: string, bytes: number): Hold | 'each' | 'all' {
    return this.#unread.take(tokenId, bytes)
  }
}

/** SDKs send the request again after 503. The stored result then answers it, so nothing is bought twice. */
export function tooMuchUnread(): DoorError {
  const message = 'too many answers wait to be read. Send the same request again: nothing is bought twice'
  const headers = { 'retry-after': '2' }
  return new DoorError(message, { status: 503, type: 'server_error', code: 'too_much_unread', headers })
}

function tooMany(limit: string): DoorError {
  return new DoorError(`the door serves at most ${limit}. Send the request again later`, {
    ...{ status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', headers: { 'retry-after': '5' } },
  })
}
