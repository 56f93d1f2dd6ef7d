import { createHash, timingSafeEqual } from 'node:crypto'
import { type Clock, isoTime } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { InvitedWorker, InviteWorker, WorkerRecord } from '../schema/worker.ts'
import { INVITE_HOURS } from '../schema/worker.ts'
import type { StoredWorker, WorkerStore } from '../store/workers.ts'
import { writeJoinToken } from './join-token.ts'
import { revoked, WorkError } from './work-error.ts'
import { createWorkerLooks, type WorkerLooks } from './worker-looks.ts'
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
  /** The id of this process. */
  process: string
  /** Where workers reach this node. */
  addresses(): Promise<string[]>
  /** The workers of the other processes of this seller. */
  elsewhere(): Promise<readonly WorkerElsewhere[]>
}

/** A worker that is connected to another process. */
export type WorkerElsewhere = {
  id: string
  process: string
  agents: readonly string[]
  /** The agents whose last tasks it failed. Undefined: the process is of an older version. */
  failing?: readonly string[] | undefined
  running: number
  runsMax: number
  since: number
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
  knows: WorkerLooks['knows']
  look: WorkerLooks['look']
  noteSeen(id: string): Promise<unknown>
}

export function createWorkerRoll({ clock, store, pool, random, peerId, addresses, ...deps }: RollDeps): WorkerRoll {
  async function views(workers: readonly StoredWorker[]): Promise<WorkerRecord[]> {
    const around = { pool, process: deps.process, elsewhere: await deps.elsewhere(), now: clock.now() }
    return workers.map((worker) => viewOf(worker, around))
  }
  async function view(worker: StoredWorker): Promise<WorkerRecord> {
    const [record] = await views([worker])
    return record!
  }
  const looks = createWorkerLooks(store, pool)
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
      return {
        ...(await view(worker)),
        token: writeJoinToken({ peer: peerId, addrs: (await addresses()).slice(0, 32), id, secret }),
      }
    },
    list: async () => views(await store.list()),
    async revoke(id) {
      const worker = await store.revoke(id, clock.now())
      if (worker === undefined) {
        throw new CodedError('UNKNOWN_WORKER', `there is no worker ${id}: see stoa worker list`)
      }
      const link = pool.link(id)
      if (link !== undefined) looks.cut(link)
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
        throw revoked()
      }
      if (worker.peerId === claimant) {
        looks.met(claimant)
        return worker
      }
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
    knows: looks.knows,
    look: looks.look,
    noteSeen: (id) => store.noteSeen(id, clock.now()),
  }
}

type Around = { pool: WorkerPool; process: string; now: number; elsewhere: readonly WorkerElsewhere[] }

function viewOf(worker: StoredWorker, { pool, process, now, elsewhere }: Around): WorkerRecord {
  const { id, name, peerId, createdAt, expiresAt, seenAt, revokedAt } = worker
  const link = pool.link(id)
  const here = link && {
    ...link.worker,
    running: link.running,
    process,
    agents: [...link.worker.agents.keys()],
    failing: pool.failing(link),
  }
  const others = elsewhere.filter((one) => one.id === id)
  const all = [...(here === undefined ? [] : [here]), ...others]
  const isConnected = all.length > 0
  const failing = [...new Set(all.flatMap((one) => one.failing ?? []))]
  return {
    id,
    name,
    state: stateOf(worker, isConnected, now),
    ...(peerId !== undefined && { peer_id: peerId }),
    agents: [...new Set(all.flatMap(({ agents }) => agents))],
    ...(failing.length > 0 && { failing }),
    running: all.reduce((sum, { running }) => sum + running, 0),
    // It says the same to each process.
    runs_max: Math.max(0, ...all.map(({ runsMax }) => runsMax)),
    ...(isConnected && { processes: all.map((one) => one.process) }),
    created_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
    ...(isConnected && { connected_at: isoTime(Math.min(...all.map(({ since }) => since))) }),
    ...(seenAt !== undefined && { seen_at: isoTime(isConnected ? now : seenAt) }),
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
