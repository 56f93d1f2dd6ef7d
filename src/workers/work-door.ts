import type { Stream } from '@libp2p/interface'
import type { Clock } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { within } from '../lib/wait.ts'
import { FramedStream } from '../protocols/framed-stream.ts'
import type { PeerLimits } from '../protocols/peer-limits.ts'
import { fromWorker, SELLER_ADDRESSES_MAX, WORK_PROTOCOL, type WorkMessage } from '../schema/work.ts'
import { JoiningPlaces, tooMany } from './joining-places.ts'
import { WorkError } from './work-error.ts'
import { parseWork, writeWork } from './work-messages.ts'
import { WorkerLink } from './worker-link.ts'
import type { WorkerPool } from './worker-pool.ts'
import type { WorkerRoll } from './worker-roll.ts'

/** How long a peer may take to present its join token. */
const JOIN_MS_MAX = 10_000
/** Attempts to join: of each peer, and of the strangers at one address. Several workers of one home share an address. */
const PEER_JOINS = { burst: 8, perSecond: 0.5, keysMax: 1_000 }
const SITE_JOINS = { burst: 64, perSecond: 2, keysMax: 1_000 }

type DoorDeps = {
  clock: Clock
  logger: Logger
  roll: WorkerRoll
  pool: WorkerPool
  /** True if the seller has an agent of this name that workers run. */
  hasAgent(name: string): boolean
  /** Where the seller is reached: all its processes. */
  addresses(): string[]
  limits: Pick<PeerLimits, 'openStream' | 'holdBytes'>
  siteOf(peerId: string): string | undefined
  handle(
    protocol: string,
    handler: (stream: Stream, peerId: string) => void,
    options: { relayed: boolean },
  ): Promise<void>
  /** Resolves when no agent runs. */
  idle(): Promise<void>
  /** How long runs may go on when the node stops, as those of its other agents may. */
  drainMs: number
}

/** `signal`: a stranger may have to make room for others until it was heard. */
type Entry = { signal: AbortSignal; heard(): void; leave(): void }

/** Lets workers in (`/stoa/work/1.0.0`). Others may open streams here too, so everything is limited before the token. */
export function createWorkDoor(deps: DoorDeps, { cancelMs }: { cancelMs?: number | undefined } = {}): Service {
  const { clock, logger, limits } = deps
  const [byPeer, bySite] = [new TokenBuckets(PEER_JOINS), new TokenBuckets(SITE_JOINS)]
  const closing = new AbortController()
  let isStopping = false
  const served = new Set<Promise<void>>()
  const places = new JoiningPlaces()

  function accept(stream: Stream, peerId: string): void {
    const framed = new FramedStream(stream, { account: (change) => limits.holdBytes(peerId, change) })
    const release = limits.openStream(peerId)
    const entry = release === undefined || isStopping ? undefined : enter(peerId)
    const refusal = isStopping ? stops() : tooMany()
    const work = (entry === undefined ? refuse(framed, refusal) : serve(framed, peerId, entry))
      .catch((error: unknown) => logger.debug({ err: error, peer_id: peerId }, 'a worker’s stream failed'))
      .finally(() => {
        stream.abort(new Error('the work is over'))
        release?.()
        served.delete(work)
      })
    served.add(work)
  }

  /** Undefined: too many attempts. Workers that the ledger knows need no place among strangers. */
  function enter(peerId: string): Entry | undefined {
    const now = clock.now()
    // The peer first: one that tries again and again takes nothing from the others of its address.
    if (!byPeer.take(peerId, 1, now)) return undefined
    if (deps.roll.knows(peerId)) return { signal: closing.signal, heard() {}, leave() {} }
    const site = deps.siteOf(peerId) ?? ''
    return bySite.take(site, 1, now) ? places.take(site) : undefined
  }

  async function serve(stream: FramedStream, peerId: string, entry: Entry): Promise<void> {
    const link = await join(stream, peerId, entry).catch((error: unknown) => {
      // Strangers that crowd each other out are nobody's trouble.
      const level = error instanceof WorkError && error.code !== 'OVERLOADED' ? 'warn' : 'debug'
      logger[level]({ peer_id: peerId, reason: reasonOf(error) }, 'a worker was not let in')
      return refuse(stream, error)
    })
    if (link === undefined) return
    const { id, name, agents, runsMax } = link.worker
    const fields = { peer_id: peerId, count: runsMax, agent_name: [...agents.keys()].join(', ') }
    logger.info(fields, `worker ${name} joined`)
    try {
      // It may have been revoked while it joined. It is read meanwhile: it may have been given a task, and answer it.
      link.isHeld().catch((error: unknown) => link.cut(error))
      const reason = await link.serve(closing.signal)
      const isCutOff = reason instanceof WorkError && !closing.signal.aborted
      const why = reason === undefined ? {} : { reason: reasonOf(reason) }
      logger[isCutOff ? 'warn' : 'info']({ peer_id: peerId, ...why }, `worker ${name} left`)
      if (reason !== undefined) await refuse(stream, reason)
    } finally {
      // The ledger may have failed before the link was served: a task that waits for it must not hang.
      link.cut(new Error('the connection to the worker ended'))
      deps.pool.leave(link)
      await deps.roll.noteSeen(id)
    }
  }

  async function join(stream: FramedStream, peerId: string, entry: Entry): Promise<WorkerLink> {
    try {
      const signal = AbortSignal.any([closing.signal, entry.signal, AbortSignal.timeout(JOIN_MS_MAX)])
      const message = await readJoin(stream, signal)
      entry.heard()
      const { id, secret, runs_max: runsMax } = message
      const { name } = await deps.roll.admit({ id, secret, peerId })
      const agents = new Map(message.agents.map((agent) => [agent.name, { readsHistory: agent.reads_history }]))
      const since = clock.now()
      const onFree = () => deps.pool.assign()
      const holds = () => deps.roll.holds(id)
      const worker = { id, name, peerId, agents, runsMax, since }
      const link = new WorkerLink(worker, stream, { clock, onFree, holds, cancelMs })
      await deps.roll.noteSeen(id)
      const unknown = [...agents.keys()].filter((agent) => !deps.hasAgent(agent))
      const more = unknown.length > 0 && { unknown_agents: unknown }
      const addrs = deps.addresses().slice(0, SELLER_ADDRESSES_MAX)
      await writeWork(stream, 'work.welcome', { version: '1.0', name, ...more, addrs }, signal)
      if (message.follows_addresses === true) link.followAddresses(addrs)
      deps.pool.join(link)
      return link
    } finally {
      entry.leave()
    }
  }

  return {
    name: 'workers',
    async start() {
      // Workers that come back after a restart are no strangers.
      await deps.roll.look()
      await deps.handle(WORK_PROTOCOL, accept, { relayed: true })
    },
    async stop() {
      isStopping = true
      await within(deps.drainMs, deps.idle())
      closing.abort(stops())
      await Promise.allSettled(served)
    },
  }
}

/** A worker then dials the other processes of its seller. */
function stops(): WorkError {
  return new WorkError('OVERLOADED', 'the seller stops; come back later')
}

async function readJoin(stream: FramedStream, signal: AbortSignal): Promise<WorkMessage<'work.join'>> {
  const frame = await stream.read(signal)
  if (frame === undefined) throw new WorkError('INVALID_MESSAGE', 'the stream ended before work.join')
  const { type, message } = parseWork(frame, fromWorker)
  if (type !== 'work.join') throw new WorkError('INVALID_MESSAGE', 'the first message is work.join')
  return message
}

/** Says why, and ends the stream. */
async function refuse(stream: FramedStream, error: unknown): Promise<undefined> {
  stream.discard()
  if (!(error instanceof WorkError)) return
  const signal = AbortSignal.timeout(2_000)
  const message = { version: '1.0', code: error.code, message: error.message.slice(0, 1000) } as const
  await writeWork(stream, 'work.refused', message, signal).catch(() => {})
  await stream.close(signal).catch(() => {})
}
