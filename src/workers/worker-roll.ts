import { createHash, timingSafeEqual } from 'node:crypto'
import { type Clock, isoTime } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { InvitedWorker, InviteWorker, WorkerRecord } from '../schema/worker.ts'
import { INVITE_HOURS } from '../schema/worker.ts'
import type { StoredWorker, WorkerStore } from '../store/workers.ts'
import { writeJoinToken } from './join-token.ts'
import { WorkError } from './work-error.ts'
import type { WorkerPool } from './worker-pool.ts'

/** Workers and open invitations of one seller. */
const WORKERS_MAX = 256
const SECRET_BYTES = 32
const ID_BYTES = 9
const NOBODY = Buffer.alloc(32)
const HOUR_MS = 60 * 60 * 1000

type RollDeps = {
  clock: Clock
  store: WorkerStore
  pool: WorkerPool
  random(length: number): Uint8Array
  peerId: string
  /** Where workers reach this node. */
  addresses(): string[]
}

/** Who may work for this seller. */
export interface WorkerRoll {
  /** @throws CodedError WORKERS_TOO_MANY */
  invite(wanted: InviteWorker): Promise<InvitedWorker>
  list(): Promise<WorkerRecord[]>
  /** Also cuts the worker off. @throws CodedError UNKNOWN_WORKER */
  revoke(id: string): Promise<WorkerRecord>
  /** Lets the holder of a join token in. The first key that uses a token owns it. @throws WorkError */
  admit(claim: { id: string; secret: string; peerId: string }): Promise<{ id: string; name: string }>
  /** True if a worker that was let in may stay. */
  holds(id: string): Promise<boolean>
  noteSeen(id: string): Promise<unknown>
}

export function createWorkerRoll({ clock, store, pool, random, peerId, addresses }: RollDeps): WorkerRoll {
  const view = (worker: StoredWorker) => viewOf(worker, pool, clock.now())
  return {
    async invite({ name, expires_in_seconds: seconds }) {
      const now = clock.now()
      const id = Buffer.from(random(ID_BYTES)).toString('base64url')
      const secret = Buffer.from(random(SECRET_BYTES)).toString('base64url')
      const expiresAt = now + (seconds === undefined ? INVITE_HOURS * HOUR_MS : seconds * 1000)
      const worker = {
        ...{ id, name: name ?? `worker-${id.slice(0, 4)}`, hash: digest(secret), createdAt: now, expiresAt },
        ...{ peerId: undefined, seenAt: undefined, revokedAt: undefined },
      }
      if (!(await store.add(worker, WORKERS_MAX))) {
        const fix = 'revoke some with stoa worker revoke'
        throw new CodedError('WORKERS_TOO_MANY', `there are ${WORKERS_MAX} workers and invitations: ${fix}`)
      }
      return { ...view(worker), token: writeJoinToken({ peer: peerId, addrs: addresses().slice(0, 32), id, secret }) }
    },
    list: async () => (await store.list()).map(view),
    async revoke(id) {
      const worker = await store.revoke(id, clock.now())
      if (worker === undefined) {
        throw new CodedError('UNKNOWN_WORKER', `there is no worker ${id}: see stoa worker list`)
      }
      const link = pool.link(id)
      link?.cut(new WorkError('REVOKED', 'the operator of the seller revoked this worker'))
      if (link !== undefined) pool.leave(link)
      return view(worker)
    },
    async admit({ id, secret, peerId: claimant }) {
      const known = await store.get(id)
      const isIt = timingSafeEqual(digest(secret), known?.hash ?? NOBODY)
      if (!isIt || known === undefined) {
        throw new WorkError('TOKEN_UNKNOWN', 'the seller does not know this join token: ask it for a new one')
      }
      const worker = known.peerId === undefined ? await store.bind(id, claimant, clock.now()) : known
      if (worker === undefined || worker.revokedAt !== undefined) {
        throw new WorkError('REVOKED', 'the operator of the seller revoked this worker')
      }
      if (worker.peerId === claimant) return worker
      if (worker.peerId === undefined) {
        throw new WorkError('TOKEN_EXPIRED', 'nobody used this join token in time: ask the seller for a new one')
      }
      const fix = 'each worker needs its own token. If this is the same machine with a new data directory'
      throw new WorkError(
        'TOKEN_USED',
        `another worker uses this join token: ${fix}, revoke the old one and invite it anew`,
      )
    },
    async holds(id) {
      const worker = await store.get(id)
      return worker !== undefined && worker.revokedAt === undefined
    },
    noteSeen: (id) => store.noteSeen(id, clock.now()),
  }
}

function viewOf(worker: StoredWorker, pool: WorkerPool, now: number): WorkerRecord {
  const { id, name, peerId, createdAt, expiresAt, seenAt, revokedAt } = worker
  const link = pool.link(id)
  return {
    id,
    name,
    state: stateOf(worker, link !== undefined, now),
    ...(peerId !== undefined && { peer_id: peerId }),
    agents: link === undefined ? [] : [...link.worker.agents.keys()],
    running: link?.running ?? 0,
    runs_max: link?.worker.runsMax ?? 0,
    created_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
    ...(link !== undefined && { connected_at: isoTime(link.worker.since) }),
    ...(seenAt !== undefined && { seen_at: isoTime(link === undefined ? seenAt : now) }),
    ...(revokedAt !== undefined && { revoked_at: isoTime(revokedAt) }),
  }
}

function stateOf({ peerId, expiresAt, revokedAt }: StoredWorker, isConnected: boolean, now: number) {
  if (revokedAt !== undefined) return 'revoked'
  if (isConnected) return 'connected'
  if (peerId !== undefined) return 'away'
  return now < expiresAt ? 'invited' : 'expired'
}

function digest(text: string): Uint8Array {
  return createHash('sha256').update(text).digest()
}
