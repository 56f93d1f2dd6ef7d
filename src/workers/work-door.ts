import type { Stream } from '@libp2p/interface'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'
import { within } from '../lib/wait.ts'
import { FramedStream } from '../protocols/framed-stream.ts'
import type { PeerLimits } from '../protocols/peer-limits.ts'
import { fromWorker, WORK_PROTOCOL, type WorkMessage } from '../schema/work.ts'
import { WorkError } from './work-error.ts'
import { parseWork, writeWork } from './work-messages.ts'
import { WorkerLink } from './worker-link.ts'
import type { WorkerPool } from './worker-pool.ts'
import type { WorkerRoll } from './worker-roll.ts'

/** Streams that have not presented a join token yet, and how long they may take. */
const JOINING_MAX = 32
const JOIN_MS_MAX = 10_000
/** Attempts to join, by peer and by address: several workers of one home share an address. */
const PEER_JOINS = { burst: 8, perSecond: 0.5, keysMax: 1_000 }
const SITE_JOINS = { burst: 64, perSecond: 2, keysMax: 1_000 }
/** When the node stops, runs may finish for this long, as those of its other agents may. */
const STOP_GRACE_MS = 2_000

type DoorDeps = {
  clock: Clock
  logger: Logger
  roll: WorkerRoll
  pool: WorkerPool
  limits: Pick<PeerLimits, 'openStream' | 'holdBytes'>
  siteOf(peerId: string): string | undefined
  handle(
    protocol: string,
    handler: (stream: Stream, peerId: string) => void,
    options: { relayed: boolean },
  ): Promise<void>
  /** Resolves when no agent runs. */
  idle(): Promise<void>
}

/** Lets workers in (`/stoa/work/1.0.0`). Others may open streams here too, so everything is limited before the token. */
export function createWorkDoor(deps: DoorDeps, { cancelMs }: { cancelMs?: number | undefined } = {}): Service {
  const { clock, logger, limits } = deps
  const [byPeer, bySite] = [new TokenBuckets(PEER_JOINS), new TokenBuckets(SITE_JOINS)]
  const closing = new AbortController()
  const served = new Set<Promise<void>>()
  let joining = 0

  function accept(stream: Stream, peerId: string): void {
    const framed = new FramedStream(stream, { account: (change) => limits.holdBytes(peerId, change) })
    const release = limits.openStream(peerId)
    const mayJoin = release !== undefined && !closing.signal.aborted && mayTry(peerId)
    const work = (mayJoin ? serve(framed, peerId) : refuse(framed, overloaded()))
      .catch((error: unknown) => logger.debug({ err: error, peer_id: peerId }, 'a worker’s stream failed'))
      .finally(() => {
        stream.abort(new Error('the work is over'))
        release?.()
        served.delete(work)
      })
    served.add(work)
  }

  function mayTry(peerId: string): boolean {
    const now = clock.now()
    return joining < JOINING_MAX && bySite.take(deps.siteOf(peerId) ?? '', 1, now) && byPeer.take(peerId, 1, now)
  }

  async function serve(stream: FramedStream, peerId: string): Promise<void> {
    const link = await join(stream, peerId).catch((error: unknown) => {
      if (error instanceof WorkError) logger.warn({ peer_id: peerId, reason: error.message }, 'a worker was not let in')
      return refuse(stream, error)
    })
    if (link === undefined) return
    const { id, name, agents, runsMax } = link.worker
    const fields = { peer_id: peerId, count: runsMax, agent_name: [...agents.keys()].join(', ') }
    logger.info(fields, `worker ${name} joined`)
    try {
      // It may have been revoked while it joined.
      const isHeld = await deps.roll.holds(id)
      if (!isHeld) link.cut(new WorkError('REVOKED', 'the operator of the seller revoked this worker'))
      const reason = await link.serve(closing.signal)
      logger[reason instanceof WorkError ? 'warn' : 'info']({ peer_id: peerId, err: reason }, `worker ${name} left`)
      if (reason !== undefined) await refuse(stream, reason)
    } finally {
      deps.pool.leave(link)
      await deps.roll.noteSeen(id)
    }
  }

  async function join(stream: FramedStream, peerId: string): Promise<WorkerLink> {
    joining += 1
    try {
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(JOIN_MS_MAX)])
      const message = await readJoin(stream, signal)
      const { id, secret, runs_max: runsMax } = message
      const { name } = await deps.roll.admit({ id, secret, peerId })
      const agents = new Map(message.agents.map((agent) => [agent.name, { readsHistory: agent.reads_history }]))
      const since = clock.now()
      const onFree = () => deps.pool.assign()
      const link = new WorkerLink({ id, name, peerId, agents, runsMax, since }, stream, { onFree, cancelMs })
      await deps.roll.noteSeen(id)
      await writeWork(stream, 'work.welcome', { version: '1.0', name }, signal)
      deps.pool.join(link)
      return link
    } finally {
      joining -= 1
    }
  }

  return {
    name: 'workers',
    start: () => deps.handle(WORK_PROTOCOL, accept, { relayed: true }),
    async stop() {
      await within(STOP_GRACE_MS, deps.idle())
      closing.abort(new WorkError('OVERLOADED', 'the seller stops; come back later'))
      await Promise.allSettled(served)
    },
  }
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

function overloaded(): WorkError {
  return new WorkError('OVERLOADED', 'too many attempts to join: try again later')
}
