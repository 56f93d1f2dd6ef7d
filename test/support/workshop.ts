import { randomBytes } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import { onTestFinished } from 'vitest'
import { RunSlots } from '../../src/agents/run-slots.ts'
import type { AgentCall } from '../../src/agents/runtime.ts'
import type { WorkerTask } from '../../src/agents/worker-agent.ts'
import { parseJson } from '../../src/lib/json.ts'
import { type Logger, silentLogger } from '../../src/lib/logger.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { PeerLimits } from '../../src/protocols/peer-limits.ts'
import type { WorkMessage, WorkMessageType } from '../../src/schema/work.ts'
import { openDatabase } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createWorkerStore } from '../../src/store/workers.ts'
import { readJoinToken } from '../../src/workers/join-token.ts'
import { createWorkDoor } from '../../src/workers/work-door.ts'
import { workFor } from '../../src/workers/work-for.ts'
import { openWorkerAgents } from '../../src/workers/worker-agents.ts'
import { WorkerPool } from '../../src/workers/worker-pool.ts'
import { createWorkerRoll } from '../../src/workers/worker-roll.ts'
import { HandClock } from './hand-clock.ts'

const SELLER = '12D3KooWSeller'

type Handler = (stream: Stream, peerId: string) => void
type Run = (call: AgentCall) => Promise<string>

type WorkshopOptions = {
  awayMs?: number
  cancelMs?: number
  drainMs?: number
  /** The address of a peer, or of all. */
  site?: string | ((peerId: string) => string | undefined)
  /** The ledger of the seller. The test closes it. */
  ledger?: LedgerDatabase
  logger?: Logger
  /** Names under which the seller has no agent. */
  unknown?: readonly string[]
  /** Where the seller is reached. */
  addresses?: () => string[]
}

/** The seller's side of the work protocol over streams in memory, and workers for it, honest and scripted. */
export async function openWorkshop(options: WorkshopOptions = {}) {
  const {
    awayMs,
    cancelMs,
    drainMs = 2_000,
    site,
    ledger,
    logger = silentLogger,
    unknown = [],
    addresses = () => [],
  } = options
  const database = ledger ?? openDatabase({ path: ':memory:' })
  const clock = new HandClock(Date.parse('2026-11-23T10:00:00Z'))
  const pool = new WorkerPool({ clock, logger, awayMs })
  const random = (length: number) => randomBytes(length)
  const invited = async () => [`/ip4/192.0.2.1/tcp/4001/p2p/${SELLER}`]
  const roll = createWorkerRoll({
    ...{ process: 'this', elsewhere: async () => [] },
    ...{ clock, pool, random, addresses: invited, store: createWorkerStore(database), peerId: SELLER },
  })
  let handler: Handler | undefined
  const slots = new RunSlots({ concurrentMax: 16, waitingMax: 16 })
  const limits = new PeerLimits({ requestsPerSecond: 1000 }, { clock })
  let held = 0
  let most = 0
  const door = createWorkDoor(
    {
      ...{ clock, logger, roll, pool, addresses },
      limits: {
        openStream: (peerId) => limits.openStream(peerId),
        holdBytes(peerId, change) {
          held += change
          most = Math.max(most, held)
          return limits.holdBytes(peerId, change)
        },
      },
      hasAgent: (name) => !unknown.includes(name),
      siteOf: (peerId) => (typeof site === 'function' ? site(peerId) : (site ?? peerId)),
      handle: async (_protocol, handle) => {
        handler = handle
      },
      idle: () => slots.idle(),
      drainMs,
    },
    { cancelMs },
  )
  await door.start()
  const ending = new AbortController()
  const streams: Stream[] = []
  onTestFinished(async () => {
    ending.abort(new Error('the test is over'))
    await door.stop()
    for (const stream of streams) stream.abort(new Error('the test is over'))
    if (ledger === undefined) await database.close()
  })

  /** A stream to the seller from a peer. */
  async function dial(peerId: string): Promise<Stream> {
    const [near, far] = await streamPair({ protocol: '/stoa/work/1.0.0' })
    streams.push(near, far)
    handler!(far, peerId)
    return near
  }

  const invite = async (wanted = {}) => {
    const { id, token } = await roll.invite(wanted)
    return { id, secret: readJoinToken(token).secret }
  }

  return {
    ...{ clock, pool, roll, door, dial, invite, slots },
    /** The most bytes that the seller held for peers at once. */
    mostHeld: () => most,
    /** A worker that speaks the protocol by hand. It has not joined yet. */
    async peer(peerId = `peer ${randomBytes(4).toString('hex')}`) {
      const stream = await dial(peerId)
      return new ScriptedWorker(stream, peerId)
    },
    /** A scripted worker that has joined. */
    async joined(names: readonly string[] = ['paint'], runsMax = 1) {
      const worker = await this.peer()
      await worker.join(await invite(), names, runsMax)
      return worker
    },
    /** An honest worker that runs functions. */
    async worker(agents: Record<string, Run>, runsMax = 1, onAddresses = (_addrs: readonly string[]) => {}) {
      const { id, secret } = await invite()
      const definitions = Object.keys(agents).map((name) => ({ name, description: 'x', price: 0n }))
      const opened = await openWorkerAgents(definitions, {
        createRuntime: async ({ name }) => ({ model: 'test', readsHistory: true, run: agents[name]! }),
        logger: silentLogger,
      })
      const leaving = new AbortController()
      const { promise: isIn, resolve: onWelcome } = Promise.withResolvers<string>()
      const deps = { agents: opened, logger: silentLogger, dial: () => dial(id), onWelcome, onAddresses }
      const signal = AbortSignal.any([leaving.signal, ending.signal])
      const ended = workFor({ id, secret, runsMax }, { ...deps, retry: { firstMs: 1, mostMs: 1 } }, signal)
      ended.catch(() => {})
      await isIn
      return { id, ended, leave: () => leaving.abort(new Error('the worker is killed')) }
    },
  }
}

/** A task with the limits of an agent. */
export function task(input: string, changes: Partial<WorkerTask> = {}): WorkerTask {
  const limits = { timeoutSeconds: 60, outputBytesMax: 1000 }
  return { input, callerId: 'did:x', history: [], signal: new AbortController().signal, ...limits, ...changes }
}

/** The worker's end of a stream, message by message. */
export class ScriptedWorker {
  readonly peerId: string
  readonly stream: Stream
  readonly #framed: FramedStream
  readonly #signal = AbortSignal.timeout(10_000)

  constructor(stream: Stream, peerId: string) {
    this.stream = stream
    this.peerId = peerId
    this.#framed = new FramedStream(stream)
  }

  send<T extends WorkMessageType>(type: T, message: WorkMessage<T>): Promise<void> {
    return this.#framed.writeText(type, JSON.stringify(message), this.#signal)
  }

  /** The next message; undefined at the end of the stream, however it ended. */
  async next(): Promise<{ type: string; message: Record<string, unknown> } | undefined> {
    const frame = await this.#framed.read(this.#signal).catch((error: unknown) => {
      this.#signal.throwIfAborted()
      return void error
    })
    return frame && { type: frame.type, message: parseJson(frame.data) as Record<string, unknown> }
  }

  /** Joins, and returns the first answer of the seller. */
  async join({ id, secret }: { id: string; secret: string }, names: readonly string[] = ['paint'], runsMax = 1) {
    const agents = names.map((name) => ({ name, reads_history: false }))
    await this.send('work.join', { version: '1.0', id, secret, agents, runs_max: runsMax })
    return this.next()
  }

  /** Waits for a task and returns the id of its run. */
  async task(): Promise<string> {
    const next = await this.next()
    if (next?.type !== 'work.task') throw new Error(`the seller sent ${next?.type}`)
    return String(next.message.run)
  }

  /** Reads to the end, and returns the code of the last refusal. */
  async refusal(): Promise<unknown> {
    let code: unknown
    for (let next = await this.next(); next !== undefined; next = await this.next()) {
      if (next.type === 'work.refused') code = next.message.code
    }
    return code
  }
}
