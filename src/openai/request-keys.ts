import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { CodedError } from '../lib/errors.ts'
import { IdempotencyKey } from '../schema/idempotency.ts'
import type { RequestName } from '../store/idempotency.ts'
import type { AttemptEnd } from './attempt-end.ts'
import { invalidRequest } from './door-error.ts'
import { JOIN_MS } from './shared-calls.ts'

/** How long a result answers a request whose SDK says that it is sent again. */
const SENT_AGAIN_MS = 10 * 60_000

/** The idempotency keys of the orders of a request. */
export type RequestKeys = {
  /** Every key of the same request begins with this prefix, at every process and at any time. */
  prefix: string
  /** How long a result that a client has got answers the same request. */
  answersMs: number
  /** Set if the client sent an `Idempotency-Key`. The ledger refuses the same key with another request. */
  given?: GivenKey | undefined
}
/** `key`: the keys of all attempts begin with it. */
type GivenKey = { key: string; name: RequestName }

/** An attempt to buy for a request. Its order has the idempotency key `<key>.<attempt>`. Attempt 0: there was none yet. */
export type KeyedAttempt = { key: string; attempt: number }

/**
 * Makes the keys of a request from its `Idempotency-Key`, or else from its content.
 *
 * @param digest of the content, as hex
 * @returns also `name`: requests with the same name are one call while it runs
 * @throws DoorError 400 for a malformed `Idempotency-Key`: a client that sends one relies on it
 */
export function keysOf(
  digest: string,
  tokenId: string,
  headers: IncomingHttpHeaders,
): { name: string; keys: RequestKeys } {
  const sent = givenKey(headers)
  if (sent !== undefined) {
    const named = createHash('sha256').update(sent).digest('hex').slice(0, 40)
    const prefix = `openai:${named}:`
    const key = `${prefix}${digest.slice(0, 40)}`
    // The space keeps this name apart from the keys of clients, which have none.
    const given = { key, name: { key: `openai ${named}`, hash: Buffer.from(digest, 'hex') } }
    return { name: `${tokenId} ${key}`, keys: { prefix, answersMs: Number.POSITIVE_INFINITY, given } }
  }
  const prefix = `openai:${digest.slice(0, 40)}:`
  // The SDKs count how often they have sent a request.
  const isSentAgain = Number(headers['x-stainless-retry-count'] ?? 0) > 0
  return { name: `${tokenId} ${digest}`, keys: { prefix, answersMs: isSentAgain ? SENT_AGAIN_MS : JOIN_MS } }
}

function givenKey({ 'idempotency-key': given }: IncomingHttpHeaders): string | undefined {
  const key = IdempotencyKey.optional().safeParse(given)
  if (key.success) return key.data
  throw invalidRequest('Idempotency-Key', `Idempotency-Key ${key.error.issues[0]!.message}`)
}

/**
 * Returns the attempt after which a request goes on. Only the ledger decides, and no clock: processes that get one request
 * at the same moment choose the same key, and only one of them buys.
 *
 * @param last the last attempt in the ledger, and how it ended
 */
export function attemptBefore(
  last: (KeyedAttempt & { end: AttemptEnd }) | undefined,
  { prefix, given }: RequestKeys,
): KeyedAttempt {
  if (given !== undefined && last?.key !== given.key) return { key: given.key, attempt: 0 }
  if (last === undefined) return { key: `${prefix}1`, attempt: 0 }
  const { key, attempt, end } = last
  // A key under which something was bought is never used for another purchase.
  if (given === undefined && end === 'bought')
    return { key: `${prefix}${Number(key.slice(prefix.length)) + 1}`, attempt: 0 }
  return { key, attempt: end === 'given up' ? attempt - 1 : attempt }
}

export function usedByAnother(): CodedError<'IDEMPOTENCY_CONFLICT'> {
  return new CodedError('IDEMPOTENCY_CONFLICT', 'this Idempotency-Key was sent with another request: give each its own')
}
