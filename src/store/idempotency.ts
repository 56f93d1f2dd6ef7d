import type { UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { KEY_HOURS } from '../schema/limits.ts'
import type { Database } from './database.ts'
import { noteRunTime, type RunTime } from './run-time.ts'

/** How long a key names the same request (D38). Measured in run time, so setting the clock drops no key early. */
const KEY_LIFE_MS = KEY_HOURS * 60 * 60 * 1000

/** A request that must run at most once: its token, its key, the SHA-256 of its contents, and its run time. */
export type KeyedRequest = { tokenId: string | undefined; key: string; hash: Uint8Array; at: number }
/** What a request created. `execute`: an order whose caller waits; `order`: an order in the background. */
export type KeyTarget = { kind: 'execute' | 'order' | 'workflow'; id: string }

/** Thrown inside the transaction that would run a request again. Holds what the first request created. */
export class KeyTaken extends Error {
  override name = 'KeyTaken'
  readonly target: KeyTarget

  constructor(target: KeyTarget) {
    super(`the key names ${target.kind} ${target.id}`)
    this.target = target
  }
}

/** Requests by their idempotency keys. */
export interface IdempotencyKeys {
  /**
   * What an earlier request created. @throws CodedError IDEMPOTENCY_CONFLICT if the key was sent with another request
   */
  find(request: KeyedRequest): KeyTarget | undefined
  /** How long the node has run: the time base for the age of keys. */
  now(): number
  /** Removes keys older than `KEY_HOURS`. */
  purge(): Promise<void>
}

type KeyRow = { hash: Uint8Array; kind: KeyTarget['kind']; target: string }

/**
 * A key is free again if the caller of its order left before anything was signed: nothing was done yet. A key keeps
 * naming an order that was canceled by request.
 */
const GIVEN_UP = `
  EXISTS (SELECT 1 FROM orders o WHERE o.id = k.target AND o.status = 'failed' AND o.cancel_requested_at IS NULL
    AND json_extract(o.error, '$.code') = 'ORDER_CANCELLED'
    AND NOT EXISTS (SELECT 1 FROM authorizations a WHERE a.order_no = o.no))`
const FIND = `
  SELECT k.hash, k.kind, k.target FROM idempotency_keys k
  WHERE k.key = ? AND k.token_id = ? AND k.run_ms > ? AND NOT (k.kind = 'execute' AND ${GIVEN_UP})`
const PUT = `
  INSERT OR REPLACE INTO idempotency_keys (key, token_id, hash, kind, target, created_at, run_ms) VALUES (?, ?, ?, ?, ?, ?, ?)`

const END = `
  UPDATE orders SET status = 'failed', error = ?, updated_at = ? WHERE no NOT IN (SELECT order_no FROM authorizations)`
const UNATTENDED = `status = 'executing' AND approval_id IS NULL AND cancel_requested_at IS NULL
  AND id IN (SELECT target FROM idempotency_keys WHERE kind = 'execute')`
const OF_RUNS = `status IN ('pending', 'executing') AND for_run IS NOT NULL`

export function createIdempotencyKeys(database: Database, runTime: RunTime): IdempotencyKeys {
  return {
    find: (request) => find(database, request),
    now: runTime.now,
    async purge() {
      await runTime.save()
      await database.writeOne('DELETE FROM idempotency_keys WHERE run_ms <= ?', runTime.now() - KEY_LIFE_MS)
    },
  }
}

/**
 * Binds a key to what its request creates. Call it inside the transaction that stores both, so that neither exists
 * alone.
 *
 * @throws KeyTaken, CodedError IDEMPOTENCY_CONFLICT
 */
export function bindKey(database: Database, request: KeyedRequest, target: KeyTarget, now: UnixMs): void {
  const known = find(database, request)
  if (known !== undefined) throw new KeyTaken(known)
  const { key, tokenId = '', hash, at } = request
  database.run(PUT, key, tokenId, hash, target.kind, target.id, now, at)
  noteRunTime(database, at)
}

/** Frees the key of a request that was refused in the same transaction. */
export function freeKey(database: Database, { key, tokenId = '' }: KeyedRequest): void {
  database.run('DELETE FROM idempotency_keys WHERE key = ? AND token_id = ?', key, tokenId)
}

/** Ends unsigned orders whose caller was cut off by the end of the process. For use inside a transaction. */
export function endUnattended(database: Database, now: UnixMs): void {
  endUnsigned(database, UNATTENDED, 'the node ended before anything was signed; nothing was paid', now)
}

/** Ends unsigned orders of runs of own agents: the runs ended with the process. For use inside a transaction. */
export function endOrdersOfRuns(database: Database, now: UnixMs): void {
  endUnsigned(database, OF_RUNS, 'the run that ordered it ended with the node; nothing was paid', now)
}

function endUnsigned(database: Database, where: string, message: string, now: UnixMs): void {
  const error = JSON.stringify({ code: 'ORDER_CANCELLED', message, retryable: true })
  database.run(`${END} AND ${where}`, error, now)
}

function find(database: Database, { key, tokenId = '', hash, at }: KeyedRequest): KeyTarget | undefined {
  const row = database.one<KeyRow>(FIND, key, tokenId, at - KEY_LIFE_MS)
  if (row === undefined) return undefined
  if (Buffer.compare(row.hash, hash) === 0) return { kind: row.kind, id: row.target }
  throw new CodedError(
    'IDEMPOTENCY_CONFLICT',
    `this idempotency key was sent with another request in the last ${KEY_HOURS} hours: send each request with a key of its own`,
  )
}
