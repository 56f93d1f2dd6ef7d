import type { UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { KEY_HOURS } from '../schema/limits.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { one, type Query, run, steps } from './query.ts'
import { RUN_TIME_APART_MS, type RunTime } from './run-time.ts'

/** How long a key names the same request (D38). Measured in run time, so setting the clock drops no key early. */
const KEY_LIFE_MS = KEY_HOURS * 60 * 60 * 1000 + RUN_TIME_APART_MS

/**
 * A client's name for a request whose attempts have keys of their own, and the SHA-256 of its contents. The name is refused
 * with other contents.
 */
export type RequestName = { key: string; hash: Uint8Array }
/** A request that must run at most once: its token, its key, the SHA-256 of its contents, and its run time. */
export type KeyedRequest = {
  tokenId: string | undefined
  key: string
  hash: Uint8Array
  at: number
  named?: RequestName | undefined
}
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
  find(request: KeyedRequest): Promise<KeyTarget | undefined>
  /**
   * The last order whose key begins with `prefix`, of a token, or also of the operator, and its run time. Its key may be free
   * again, and may be older than `KEY_HOURS`.
   */
  last(
    prefix: string,
    of: { tokenId: string | undefined; orOperator?: boolean },
  ): Promise<{ key: string; orderId: string; at: number } | undefined>
  /** How long the node has run: the time base for the age of keys. */
  now(): number
  /** Removes keys older than `KEY_HOURS`. */
  purge(): Promise<void>
}

type KeyRow = { hash: Uint8Array; kind: KeyTarget['kind']; target: string }

/** Errors of unsigned orders that free their keys: the caller left, or the ledger was away or full. */
const UNDONE_CODES = ['ORDER_CANCELLED', 'STORE_WRITE_FAILED', 'STORE_AWAY', 'STORE_IN_DOUBT'] as const
/** Orders store their errors as JSON, the code first. */
const IS_UNDONE = UNDONE_CODES.map((code) => `{"code":"${code}"`)
  .map((start) => `substr(o.error, 1, ${start.length}) = '${start}'`)
  .join(' OR ')
/**
 * A key becomes free if its order ended with such an error before anything was signed. An order that was canceled by request
 * keeps its key.
 */
const GIVEN_UP = `
  (k.kind = 'execute' AND EXISTS (
    SELECT 1 FROM orders o WHERE o.id = k.target AND o.status = 'failed' AND o.cancel_requested_at IS NULL
      AND (${IS_UNDONE})
      AND NOT EXISTS (SELECT 1 FROM authorizations a WHERE a.order_no = o.no)))`
const FIND = `
  SELECT k.hash, k.kind, k.target FROM idempotency_keys k
  WHERE k.key = ? AND k.token_id = ? AND k.run_ms > ? AND NOT ${GIVEN_UP}`
/** Of two requests at the same instant, the second waits for the first to commit and then finds the key taken. */
const PUT = `
  INSERT INTO idempotency_keys AS k (key, token_id, hash, kind, target, created_at, run_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (key, token_id) DO UPDATE SET hash = excluded.hash, kind = excluded.kind, target = excluded.target,
    created_at = excluded.created_at, run_ms = excluded.run_ms
  WHERE k.run_ms <= ? OR ${GIVEN_UP}`
/** A name keeps its contents, even if their orders fail. */
const NAME = `
  INSERT INTO idempotency_keys AS k (key, token_id, hash, kind, target, created_at, run_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (key, token_id) DO UPDATE SET hash = excluded.hash, run_ms = excluded.run_ms,
    target = CASE WHEN k.hash = excluded.hash THEN k.target ELSE excluded.target END
  WHERE k.hash = excluded.hash OR k.run_ms <= ?`

/** Keys are compared byte by byte, so those with a prefix follow each other. */
const BEGINNING = "k.key >= ?1 AND k.key < ?2 AND k.token_id IN (?3, ?4) AND k.kind <> 'workflow'"
const LAST = `
  SELECT k.key, k.target, k.run_ms FROM idempotency_keys k JOIN orders o ON o.id = k.target
  WHERE ${BEGINNING} AND o.no = (
    SELECT max(o.no) FROM idempotency_keys k JOIN orders o ON o.id = k.target WHERE ${BEGINNING})`

/** Looks at one order at a time. `NOT IN` would read the list of all signed orders for each. */
export const IS_UNSIGNED = 'NOT EXISTS (SELECT 1 FROM authorizations a WHERE a.order_no = orders.no)'
const END = `
  UPDATE orders SET status = 'failed', error = ?, updated_at = ? WHERE ${IS_UNSIGNED} AND ${LEFT_BEHIND}`
/** The first condition is worded like the index of open orders, so that SQLite uses it. */
const UNATTENDED = `status IN ('pending', 'executing') AND status = 'executing'
  AND approval_id IS NULL AND cancel_requested_at IS NULL
  AND id IN (SELECT target FROM idempotency_keys WHERE kind = 'execute')`
const OF_RUNS = `status IN ('pending', 'executing') AND for_run IS NOT NULL`

export function createIdempotencyKeys(database: LedgerDatabase, runTime: RunTime): IdempotencyKeys {
  return {
    find: (request) => database.query(find(request)),
    async last(prefix, { tokenId = '', orOperator = false }) {
      const end = prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)
      const found = await database.query(
        one<{ key: string; target: string; run_ms: number }>(LAST, prefix, end, tokenId, orOperator ? '' : tokenId),
      )
      return found && { key: found.key, orderId: found.target, at: Number(found.run_ms) }
    },
    now: runTime.now,
    async purge() {
      await runTime.save()
      await database.commit(run('DELETE FROM idempotency_keys WHERE run_ms <= ?', runTime.now() - KEY_LIFE_MS))
    },
  }
}

/**
 * Binds a key to what its request creates. Part of the change that stores both, so that neither exists alone.
 *
 * @throws KeyTaken, CodedError IDEMPOTENCY_CONFLICT
 */
export function bindKey(request: KeyedRequest, target: KeyTarget, now: UnixMs): Query<void> {
  const { key, tokenId = '', hash, at, named } = request
  const values = [target.kind, target.id, now, at, at - KEY_LIFE_MS] as const
  return steps(function* () {
    if (named !== undefined && (yield* run(NAME, named.key, tokenId, named.hash, ...values)) === 0) throw conflict()
    for (;;) {
      const bound = yield* run(PUT, key, tokenId, hash, ...values)
      if (bound === 1) return
      const known = yield* find(request)
      if (known !== undefined) throw new KeyTaken(known)
      // Another process has just freed the key.
    }
  })
}

/** Frees the key of a request that the same change refuses. @param target what it would have created */
export function freeKey({ key, tokenId = '', named }: KeyedRequest, target: string): Query<number> {
  const keys = [key, named?.key ?? key]
  return run(
    'DELETE FROM idempotency_keys WHERE key IN (?, ?) AND token_id = ? AND target = ?',
    ...keys,
    tokenId,
    target,
  )
}

/** True if an order that has failed, with nothing signed, leaves its key free. */
export function isUndone(code: string | undefined): boolean {
  return UNDONE_CODES.some((undone) => undone === code)
}

/** Ends unsigned orders whose caller was cut off by the end of the process. */
export function endUnattended(now: UnixMs): Query<number> {
  return endUnsigned(UNATTENDED, 'the node ended before anything was signed; nothing was paid', now)
}

/** Ends unsigned orders of runs of own agents: the runs ended with the process. */
export function endOrdersOfRuns(now: UnixMs): Query<number> {
  return endUnsigned(OF_RUNS, 'the run that ordered it ended with the node; nothing was paid', now)
}

function endUnsigned(where: string, message: string, now: UnixMs): Query<number> {
  const error = JSON.stringify({ code: 'ORDER_CANCELLED', message, retryable: true })
  return run(`${END} AND ${where}`, error, now)
}

function find({ key, tokenId = '', hash, at }: KeyedRequest): Query<KeyTarget | undefined> {
  return steps(function* () {
    const row = yield* one<KeyRow>(FIND, key, tokenId, at - KEY_LIFE_MS)
    if (row === undefined) return undefined
    if (Buffer.compare(row.hash, hash) === 0) return { kind: row.kind, id: row.target }
    throw conflict()
  })
}

function conflict(): CodedError<'IDEMPOTENCY_CONFLICT'> {
  const why = `this idempotency key was sent with another request in the last ${KEY_HOURS} hours`
  return new CodedError('IDEMPOTENCY_CONFLICT', `${why}: send each request with a key of its own`)
}
