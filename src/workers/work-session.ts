import { AgentError, type Exchange } from '../agents/runtime.ts'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import {
  fromSeller,
  WORK_OUTPUT_LENGTH_MAX,
  type WorkMessage,
  type WorkMessageType,
  type WorkRefusal,
  workRefusals,
} from '../schema/work.ts'
import { WorkError } from './work-error.ts'
import { bodyOf, parseWork, textOf, writeWork } from './work-messages.ts'
import type { WorkerAgents } from './worker-agents.ts'

/** The seller answers an honest worker at once. One that waited for ever would not try another process of its seller. */
const WELCOME_MS_MAX = 30_000

export type SessionOptions = { id: string; secret: string; runsMax: number; welcomeMs?: number }
export type SessionDeps = {
  agents: WorkerAgents
  logger: Logger
  /** Called when the seller has let this worker in. `unknown`: agents under whose names the seller has none for workers. */
  onWelcome(name: string, unknown: readonly string[]): void
  /** Called with the addresses at which the seller is reached now. */
  onAddresses(addrs: readonly string[]): void
}

/** The worker's end of the stream to its seller: joins, runs what it is given, and answers. */
export class WorkSession {
  readonly #stream: FramedStream
  readonly #options: SessionOptions
  readonly #deps: SessionDeps
  readonly #runs = new Map<string, AbortController>()
  readonly #histories = new Map<string, readonly Exchange[]>()
  readonly #ending = new AbortController()

  constructor(stream: FramedStream, options: SessionOptions, deps: SessionDeps) {
    this.#stream = stream
    this.#options = options
    this.#deps = deps
  }

  /** Works until the seller ends the stream. Runs under way are stopped then. @throws WorkError, FrameError */
  async serve(signal: AbortSignal): Promise<void> {
    const { id, secret, runsMax, welcomeMs = WELCOME_MS_MAX } = this.#options
    const silent = setTimeout(() => this.#ending.abort(new Error('the seller did not answer')), welcomeMs)
    const either = AbortSignal.any([signal, this.#ending.signal])
    const agents = this.#deps.agents.list().map(({ name, readsHistory }) => ({ name, reads_history: readsHistory }))
    try {
      await this.#write('work.join', { version: '1.0', id, secret, agents, runs_max: runsMax, follows_addresses: true })
      for (;;) {
        const frame = await this.#stream.read(either)
        clearTimeout(silent)
        if (frame === undefined) return
        const { type, message } = parseWork(frame, fromSeller)
        if (type === 'work.task') this.#begin(message)
        else if (type === 'work.history') this.#remember(message)
        else if (type === 'work.cancel') this.#runs.get(message.run)?.abort(new Error('the seller canceled the run'))
        else if (type === 'work.addresses') this.#deps.onAddresses(message.addrs)
        else if (type === 'work.welcome') {
          this.#deps.onWelcome(message.name, message.unknown_agents ?? [])
          this.#deps.onAddresses(message.addrs ?? [])
        } else throw refusal(message)
      }
    } finally {
      clearTimeout(silent)
      this.#ending.abort(new Error('the connection to the seller ended'))
      for (const run of this.#runs.values()) run.abort(this.#ending.signal.reason)
    }
  }

  #remember({ run, exchanges }: WorkMessage<'work.history'>): void {
    if (this.#histories.size >= this.#options.runsMax) throw new WorkError('INVALID_MESSAGE', 'histories without tasks')
    this.#histories.set(run, exchanges)
  }

  #begin(task: WorkMessage<'work.task'>): void {
    const { run, agent } = task
    const history = this.#histories.get(run) ?? []
    this.#histories.delete(run)
    if (this.#runs.has(run) || this.#runs.size >= this.#options.runsMax) {
      throw new WorkError('INVALID_MESSAGE', 'the seller hands over more tasks than this worker takes')
    }
    const controller = new AbortController()
    this.#runs.set(run, controller)
    const from = performance.now()
    const log = (outcome: string) => {
      const ms = Math.round(performance.now() - from)
      this.#deps.logger.info({ agent_name: agent, ms, reason: outcome }, 'a task ended')
    }
    this.#run(task, history, controller.signal)
      .then(
        async (output) => {
          this.#runs.delete(run)
          log('done')
          await this.#write('work.result', { run, body: bodyOf(output) })
        },
        async (error: unknown) => {
          this.#runs.delete(run)
          log(reasonOf(error))
          await this.#write('work.failed', { run, ...failureOf(error) })
        },
      )
      // The stream has ended: the seller knows that the run is lost.
      .catch((error: unknown) => this.#deps.logger.debug({ err: error }, 'an answer could not be sent'))
  }

  async #run(task: WorkMessage<'work.task'>, history: readonly Exchange[], signal: AbortSignal): Promise<string> {
    const limits = { timeoutSeconds: task.timeout_seconds, outputBytesMax: task.output_bytes_max }
    const input = textOf(task.body)
    const agent = await this.#deps.agents.get(task.agent, limits)
    const onOutput = (text: string) => this.#show(task.run, text)
    const call = { input, callerId: task.caller, history, signal }
    return agent.run(task.stream ? { ...call, onOutput } : call)
  }

  #show(run: string, text: string): void {
    // An agent may show more after its result. For the seller the run has ended.
    if (!this.#runs.has(run)) return
    for (let from = 0; from < text.length; ) {
      const piece = pieceOf(text, from)
      from += piece.length
      this.#write('work.output', { run, text: piece.toWellFormed() }).catch(() => {})
    }
  }

  #write<T extends WorkMessageType>(type: T, message: WorkMessage<T>): Promise<void> {
    return writeWork(this.#stream, type, message, this.#ending.signal)
  }
}

/** A piece ends with a whole character: half of one counts more bytes, and the seller cuts off who sends too many. */
function pieceOf(text: string, from: number): string {
  const piece = text.slice(from, from + WORK_OUTPUT_LENGTH_MAX)
  const isSplit = from + piece.length < text.length && /[\ud800-\udbff]$/.test(piece)
  return isSplit ? piece.slice(0, -1) : piece
}

/** The seller's word as an error. One that this version does not know may pass. */
function refusal({ code, message }: WorkMessage<'work.refused'>): WorkError {
  const known = Object.hasOwn(workRefusals, code) ? (code as WorkRefusal) : 'OVERLOADED'
  return new WorkError(known, message)
}

/** What the seller may tell the buyer. */
function failureOf(error: unknown): Pick<WorkMessage<'work.failed'>, 'code' | 'message'> {
  if (error instanceof AgentError) return { code: error.code, message: error.message.slice(0, 1000) }
  return { code: 'AGENT_FAILED', message: 'the agent failed' }
}
