import type { UnixMs } from '../lib/clock.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, lock, one, type Query, run, steps, together } from './query.ts'
import type { RowOf } from './row.ts'
import type { SharedChange } from './shared-changes.ts'

/** A machine that runs agents of this node, or an invitation for one. Only a hash of its secret is stored. */
export type StoredWorker = {
  id: string
  name: string
  /** SHA-256 of the secret in the join token. */
  hash: Uint8Array
  /** The key that used the token first. */
  peerId: string | undefined
  createdAt: UnixMs
  /** Until then a key may use the token for the first time. */
  expiresAt: UnixMs
  /** When it was connected last. */
  seenAt: UnixMs | undefined
  revokedAt: UnixMs | undefined
}

export interface WorkerStore {
  /** False: there are `workersMax` workers and open invitations already. */
  add(worker: StoredWorker, workersMax: number): Promise<boolean>
  get(id: string): Promise<StoredWorker | undefined>
  /** Every worker, newest first, revoked ones included. */
  list(): Promise<StoredWorker[]>
  /** Gives an unused, valid token to a key. @returns the worker as it is then: another key may have been first */
  bind(id: string, peerId: string, now: UnixMs): Promise<StoredWorker | undefined>
  /** Returns when it was revoked. Undefined: there is no such worker. */
  revoke(id: string, now: UnixMs): Promise<StoredWorker | undefined>
  noteSeen(id: string, now: UnixMs): Promise<unknown>
}

type WorkerRow = RowOf<StoredWorker>

/** How long a revoked worker, and an invitation that nobody used, stay in the list. */
const KEPT_MS = 30 * 24 * 60 * 60 * 1000

const COLUMNS = `
  id, name, hash, peer_id AS peerId, created_at AS createdAt, expires_at AS expiresAt, seen_at AS seenAt,
  revoked_at AS revokedAt`
const SELECT = `SELECT ${COLUMNS} FROM workers WHERE id = ?`
const LIST = `SELECT ${COLUMNS} FROM workers ORDER BY no DESC`
const INSERT = 'INSERT INTO workers (id, name, hash, created_at, expires_at) VALUES (?, ?, ?, ?, ?)'
const COUNT = `
  SELECT count(*) AS n FROM workers WHERE revoked_at IS NULL AND (peer_id IS NOT NULL OR expires_at > ?)`
const PURGE = 'DELETE FROM workers WHERE revoked_at < ?1 OR (peer_id IS NULL AND expires_at < ?1)'
const BIND = `
  UPDATE workers SET peer_id = ?1 WHERE id = ?2 AND peer_id IS NULL AND revoked_at IS NULL AND expires_at > ?3`
const REVOKE = 'UPDATE workers SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL'
const SEEN = 'UPDATE workers SET seen_at = ? WHERE id = ?'

export function createWorkerStore(database: LedgerDatabase): WorkerStore {
  return {
    add: (worker, workersMax) => database.commit(add(worker, workersMax)),
    get: async (id) => worked(await database.query(one<WorkerRow>(SELECT, id))),
    list: async () => (await database.query(all<WorkerRow>(LIST))).map(fromRow),
    async bind(id, peerId, now) {
      const [, row] = await database.commit(together(run(BIND, peerId, id, now), one<WorkerRow>(SELECT, id)), noted(id))
      return worked(row)
    },
    async revoke(id, now) {
      const [, row] = await database.commit(together(run(REVOKE, now, id), one<WorkerRow>(SELECT, id)), noted(id))
      return worked(row)
    },
    noteSeen: (id, now) => database.commit(run(SEEN, now, id)),
  }
}

function add({ id, name, hash, createdAt, expiresAt }: StoredWorker, workersMax: number): Query<boolean> {
  return steps(function* () {
    yield* lock('workers')
    const [, count] = yield* together(run(PURGE, createdAt - KEPT_MS), one<{ n: number }>(COUNT, createdAt))
    if (count!.n >= workersMax) return false
    yield* run(INSERT, id, name, hash, createdAt, expiresAt)
    return true
  })
}

/** The other processes know who may work, and cut off who may not. */
function noted(id: string): SharedChange {
  return { record: 'worker', id }
}

function worked(row: WorkerRow | undefined): StoredWorker | undefined {
  return row && fromRow(row)
}

function fromRow(row: WorkerRow): StoredWorker {
  return {
    ...row,
    peerId: row.peerId ?? undefined,
    seenAt: row.seenAt ?? undefined,
    revokedAt: row.revokedAt ?? undefined,
  }
}
