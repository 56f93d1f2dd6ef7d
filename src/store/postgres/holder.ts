import { randomUUID } from 'node:crypto'
import { systemClock } from '../../lib/clock.ts'
import { thisPlace } from '../../lib/place.ts'
import { JOINING } from '../ownership.ts'
import { StoreError } from '../store-error.ts'
import type { Outcome } from './batch.ts'
import { type Connection, WRITER_NAME } from './connection.ts'
import { storeError } from './errors.ts'
import { BEGIN, COMMIT, locking, ROLLBACK, type Sent, sentOf } from './sent.ts'
import type { PostgresSettings } from './settings.ts'

/** The clock of the database, in ms: those of machines differ. */
export const NOW = 'CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)'
/** How long a process that is silent keeps its row. */
export const LEASE_MS = 20_000
/** Connections of this process that are remembered until another has taken their place. */
const BACKENDS_MAX = 16
const FORGET_AFTER_MS = 7 * 24 * 60 * 60_000

/** How long it is waited until a connection that was ended has let go of its rows. */
const ENDING_MS = 1_000
/**
 * Ends the connections of processes whose lease is over: one that was stopped or cut off in a transaction keeps its row,
 * and all that it has changed, locked for all others. A plain read, which waits for no row. What a transaction has renewed is
 * not seen before its commit, but it was renewed when the transaction began. A process that is alive connects again.
 */
export const END_CONNECTIONS = `
  SELECT pg_terminate_backend(a.pid, ${ENDING_MS}) AS ended
  FROM processes p JOIN pg_stat_activity a ON a.application_name = '${WRITER_NAME}' || p.id COLLATE "C"
  WHERE p.ended_at IS NULL AND p.id <> ?1 AND p.lease_until <= ${NOW}
    AND coalesce(a.xact_start <= clock_timestamp() - CAST(?2 AS BIGINT) * interval '1 millisecond', true)
    AND pg_has_role(a.usesysid, 'USAGE')`
/** Waits for nobody. A row that is locked belongs to a process in a transaction, or to others who end it. */
export const END_DEAD = `UPDATE processes SET ended_at = ${NOW} WHERE id IN (
    SELECT id FROM processes WHERE ended_at IS NULL AND lease_until <= ${NOW} AND id <> ? FOR UPDATE SKIP LOCKED)`
/** Several at once, and no other is alive: the database was away, rather than they. */
const ARE_CUT_OFF = `SELECT 1 FROM processes WHERE ended_at IS NULL AND id <> ?
  HAVING count(*) > 1 AND max(lease_until) <= ${NOW}`
/** For a process that has just started, and does not know whether the database was away. */
export const END_DEAD_AT_START = `${END_DEAD} AND NOT EXISTS (${ARE_CUT_OFF})`
/** Processes that share the ledger let each other in. One that copies the ledger or gives it away is alone. */
const GET_OTHERS = `SELECT place, lease_until - ${NOW} AS ms FROM processes
  WHERE ended_at IS NULL AND id <> ? AND (shared = 0 OR CAST(? AS BIGINT) = 0)`
const JOIN = `INSERT INTO processes (id, place, epoch, group_no, started_at, lease_until, shared)
  VALUES (?1, ?2, ?3, 0, ${NOW}, ${NOW} + ?4, ?5)
  ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, lease_until = excluded.lease_until`
const FORGET = `DELETE FROM processes WHERE ended_at < ${NOW} - ${FORGET_AFTER_MS}`
/** Divides by zero unless a row is changed: so the whole transaction fails, commit included, without asking first. */
const FENCE = `WITH mine AS (
    UPDATE processes SET group_no = ?3, lease_until = ${NOW} + ?4 WHERE id = ?1 AND epoch = ?2 AND ended_at IS NULL RETURNING 1
  ) SELECT 1 / count(*) FROM mine`
const REJOIN = `UPDATE processes SET epoch = ?2, lease_until = ${NOW} + ?3
  WHERE id = ?1 AND epoch < ?2 AND ended_at IS NULL RETURNING group_no AS no`
const RENEW = `UPDATE processes SET lease_until = ${NOW} + ?3 WHERE id = ?1 AND epoch = ?2 AND ended_at IS NULL`
const GET_LAST = 'SELECT group_no AS no FROM processes WHERE id = ?'
const LEAVE = `UPDATE processes SET ended_at = ${NOW} WHERE id = ? AND ended_at IS NULL`
/** What an abandoned connection still holds would keep the next one waiting until its network gives up. */
const END_BACKEND = `SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
  WHERE pid = ? AND CAST(backend_start AS TEXT) = ?`

type HolderDeps = {
  settings: PostgresSettings
  leaseMs: number
  place?: string
  /** Refuses others, and is refused beside them. */
  isAlone?: boolean
}

/** A group of changes: its number, and the statement that comes first in it. */
export type Fence = { readonly no: number; readonly statement: Sent; readonly at: Moment }

/** By the monotonic clock and by the wall clock: while a machine sleeps, the first may stand still. */
type Moment = { readonly monotonicMs: number; readonly wallMs: number }
/** The part of the lease at whose end a process takes it for over: what it sends then must leave it in time. */
const LEASE_MARGIN = 1 / 4

/**
 * The row of this process in the ledger.
 *
 * Each group of changes writes its number into the row first, which also renews the lease. So a process whose row was
 * ended by another changes nothing more, and one that has lost its connection in a commit finds out there what became of
 * it. A connection has an epoch. The next one raises it, and waits for what the one before is still doing, so that no
 * late commit follows.
 */
export class Holder {
  readonly id = randomUUID()
  readonly #deps: HolderDeps
  readonly #place: string
  #epoch = 0
  #no = 0
  /** When the last renewal that has succeeded was sent: the database received it later. */
  #renewedAt: Moment | undefined
  /** What may still lock the row on the server: the last connection, and those that failed to take its place. */
  #backends: Connection['backend'][] = []

  constructor(deps: HolderDeps) {
    this.#deps = deps
    this.#place = deps.place ?? thisPlace()
  }

  /**
   * Lets this process use the ledger. Processes whose lease has ended are ended.
   *
   * @throws StoreError `STORE_IN_USE` while another process uses it and one of both is alone, `STORE_AWAY`
   */
  async take(connection: Connection): Promise<void> {
    this.#epoch += 1
    const isShared = this.#deps.isAlone === true ? 0 : 1
    const ending = { sql: END_CONNECTIONS, values: [this.id, this.#deps.leaseMs], wants: 'rows' } as const
    // If it is not allowed, their rows stay as they are until the server ends them.
    const ended = await connection.send([sentOf(ending)])
    if (ended.kind === 'lost') this.#answered(ended)
    const begun = await connection.send([
      BEGIN,
      ...locking(JOINING),
      isShared === 1
        ? sentOf({ sql: END_DEAD_AT_START, values: [this.id, this.id], wants: 'changes' })
        : sentOf({ sql: END_DEAD, values: [this.id], wants: 'changes' }),
      sentOf({ sql: GET_OTHERS, values: [this.id, isShared], wants: 'rows' }),
    ])
    const [other] = this.#answered(begun).at(-1)!.rows as { place: string; ms: number }[]
    if (other !== undefined) {
      this.#answered(await connection.send([ROLLBACK]))
      const { name } = this.#deps.settings
      const what = `another stoa (${other.place}) uses ${name}`
      const fix = `stop that one, or wait ${Math.max(1, Math.ceil(other.ms / 1000))} s if it is dead`
      throw new StoreError('STORE_IN_USE', `${what}: ${fix}`)
    }
    const at = thisMoment()
    const values = [this.id, this.#place, this.#epoch, this.#deps.leaseMs, isShared]
    const joined = [
      sentOf({ sql: JOIN, values, wants: 'changes' }),
      sentOf({ sql: FORGET, values: [], wants: 'changes' }),
    ]
    this.#answered(await connection.send([...joined, COMMIT]))
    this.renewed(at)
    this.#backends = [connection.backend]
  }

  /** For the next group of changes. */
  fence(): Fence {
    this.#no += 1
    const values = [this.id, this.#epoch, this.#no, this.#deps.leaseMs]
    return { no: this.#no, statement: sentOf({ sql: FENCE, values, wants: 'changes' }), at: thisMoment() }
  }

  /** A renewal of the lease that was sent then has succeeded. */
  renewed(at: Moment): void {
    this.#renewedAt = at
  }

  /**
   * True if no other process can have ended this one, by the clocks of this machine: less than the lease has passed since
   * its last renewal was sent, with a margin.
   */
  isHeld(): boolean {
    if (this.#renewedAt === undefined) return false
    const { monotonicMs, wallMs } = thisMoment()
    const passedMs = Math.max(monotonicMs - this.#renewedAt.monotonicMs, wallMs - this.#renewedAt.wallMs)
    return passedMs < this.#deps.leaseMs * (1 - LEASE_MARGIN)
  }

  /** Keeps the lease of a process whose change was given up: with the change went what its fence had renewed. */
  renewal(): Sent {
    const values = [this.id, this.#epoch, this.#deps.leaseMs]
    return sentOf({ sql: RENEW, values, wants: 'changes' })
  }

  /**
   * Lets another connection write, and none before it.
   *
   * @returns the number of the group that was committed last, and whether the ledger is still held
   * @throws StoreError `STORE_AWAY`
   */
  async rejoin(connection: Connection): Promise<{ no: number; isHeld: boolean }> {
    const others = this.#backends.filter(({ pid }) => pid !== connection.backend.pid)
    if (others.length > 0) {
      const ending = others.map(({ pid, started }) =>
        sentOf({ sql: END_BACKEND, values: [pid, started], wants: 'rows' }),
      )
      const ended = await connection.send(ending)
      // It may not be allowed. Then the server finds out by itself, later.
      if (ended.kind === 'lost') this.#answered(ended)
    }
    this.#backends = [...others.slice(-BACKENDS_MAX), connection.backend]
    this.#epoch += 1
    const at = thisMoment()
    const { leaseMs } = this.#deps
    const answers = this.#answered(
      await connection.send([
        sentOf({ sql: REJOIN, values: [this.id, this.#epoch, leaseMs], wants: 'rows' }),
        sentOf({ sql: GET_LAST, values: [this.id], wants: 'rows' }),
      ]),
    )
    const [rejoined, last] = answers.map(({ rows }) => rows[0] as { no: number } | undefined)
    this.#backends = [connection.backend]
    if (rejoined !== undefined) this.renewed(at)
    return { no: (rejoined ?? last)?.no ?? -1, isHeld: rejoined !== undefined }
  }

  /** Others take over what this process leaves at once, not after its lease. */
  async leave(connection: Connection): Promise<void> {
    this.#answered(await connection.send([sentOf({ sql: LEAVE, values: [this.id], wants: 'changes' })]))
  }

  lostError(): StoreError {
    const what = `others have taken over the work of this process in ${this.#deps.settings.name}, since it did not answer for longer than its lease`
    return new StoreError('STORE_IN_USE', `${what}: nothing is bought or sold here any more. Start this node again`)
  }

  #answered(outcome: Outcome): Extract<Outcome, { kind: 'done' }>['answers'] {
    if (outcome.kind === 'done') return outcome.answers
    throw storeError(outcome.error, this.#deps.settings)
  }
}

function thisMoment(): Moment {
  return { monotonicMs: performance.now(), wallMs: systemClock.now() }
}
