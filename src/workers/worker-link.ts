import { randomUUID } from 'node:crypto'
import { AgentError, type Exchange, outputTooLarge, runCanceled } from '../agents/runtime.ts'
import type { WorkerTask } from '../agents/worker-agent.ts'
import { type Clock, monotonicOf, type UnixMs } from '../lib/clock.ts'
import { reasonOf } from '../lib/errors.ts'
import { oneLine } from '../lib/text/one-line.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { fromWorker, type WorkMessage } from '../schema/work.ts'
import { revoked, WorkError, WorkerGone } from './work-error.ts'
import { bodyOf, encodeWork, parseWork, textOf, writeWork } from './work-messages.ts'

/** A worker that was let in: who it is and what it said that it can do. */
type JoinedWorker = {
  id: string
  name: string
  peerId: string
  /** Agents that it can run: whether each reads earlier exchanges. */
  agents: ReadonlyMap<string, { readsHistory: boolean }>
  runsMax: number
  /** When it joined. */
  since: UnixMs
}

/** A worker must say within this time that a canceled run has stopped. Its programs have 3 s. */
const CANCEL_MS_MAX = 15_000
/** A task is handed over only if the ledger was asked within this time whether the worker was revoked. */
const HELD_MS = 1_000
/** Characters of a caller's history that a worker is told. A language model reads no more. */
const HISTORY_LENGTH_MAX = 100_000

/** Ended runs remembered, whose late output is dropped. */
const ENDED_MAX = 256

/** Characters of a failure that are passed on. */
const FAILURE_LENGTH_MAX = 1_000
/** Output ends with a whole character, so it may fill its limit but for a part of one. */
const CHARACTER_BYTES_MAX = 4

type Run = {
  task: WorkerTask
  outputBytes: number
  isCanceled: boolean
  cancelTimer?: NodeJS.Timeout
  resolve(output: string): void
  reject(error: unknown): void
}

/** The seller's end of the stream of one worker: hands runs over and takes what comes back. */
export class WorkerLink {
  readonly worker: JoinedWorker
  readonly #stream: FramedStream
  readonly #options: LinkOptions
  readonly #runs = new Map<string, Run>()
  /** Runs that ended, newest last, with the bytes that each may still show: output may cross a limit or the result. */
  readonly #ended = new Map<string, number>()
  readonly #ending = new AbortController()
  /** Slots that are given away, whether their runs have begun or not. */
  #taken = 0
  #heldAt: number | undefined
  /** The addresses of the seller that the worker was told. Undefined: it does not follow them. */
  #told: string | undefined

  constructor(worker: JoinedWorker, stream: FramedStream, options: LinkOptions) {
    this.worker = worker
    this.#stream = stream
    this.#options = options
  }

  get running(): number {
    return this.#taken
  }

  get hasSlot(): boolean {
    return this.#taken < this.worker.runsMax && !this.#ending.signal.aborted
  }

  /** The worker wants to know where the seller is reached, and was told so just now. */
  followAddresses(told: readonly string[]): void {
    this.#told = told.join()
  }

  /** Tells the worker where the seller is reached, if it does not know. */
  tellAddresses(addrs: readonly string[]): void {
    if (this.#told === undefined || this.#told === addrs.join() || addrs.length === 0) return
    this.#told = addrs.join()
    const told = writeWork(this.#stream, 'work.addresses', { addrs: [...addrs] }, this.#ending.signal)
    told.catch((error) => this.cut(error))
  }

  /** Takes a slot, which belongs to the next call of `run`. */
  take(): void {
    this.#taken += 1
  }

  /** Gives a slot back that was taken for a run that does not begin. */
  give(): void {
    this.#free()
  }

  /**
   * True if the worker may have a task: the ledger of about a second ago does not show it as revoked, by any process. Else
   * cuts it off. @throws StoreError
   */
  async isHeld(): Promise<boolean> {
    const now = monotonicOf(this.#options.clock)
    if (this.#heldAt === undefined || now - this.#heldAt >= HELD_MS) {
      if (await this.#options.holds()) this.#heldAt = now
      else this.cut(revoked())
    }
    return !this.#ending.signal.aborted
  }

  /** Runs a task in a slot that was taken. @throws WorkerGone, AgentError */
  async run(agent: string, task: WorkerTask): Promise<string> {
    const id = randomUUID()
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    // It may end before anybody waits for it.
    promise.catch(() => {})
    if (task.signal.aborted || this.#ending.signal.aborted) {
      this.#free()
      throw task.signal.aborted ? runCanceled() : gone(this.#ending.signal.reason)
    }
    let frames: Uint8Array[]
    try {
      frames = this.#framesOf(id, agent, task)
    } catch (error) {
      this.#free()
      throw error
    }
    this.#runs.set(id, { task, outputBytes: 0, isCanceled: false, resolve, reject })
    const onCancel = () => this.#cancel(id)
    task.signal.addEventListener('abort', onCancel, { once: true })
    try {
      // A worker that does not read keeps nobody waiting: the run may be canceled meanwhile.
      void this.#send(frames)
      return await promise
    } finally {
      task.signal.removeEventListener('abort', onCancel)
    }
  }

  /** Reads until the worker leaves or breaks a rule. @returns why it ended; undefined if the worker left */
  async serve(signal: AbortSignal): Promise<unknown> {
    const both = AbortSignal.any([signal, this.#ending.signal])
    let reason: unknown
    try {
      for (;;) {
        const frame = await this.#stream.read(both)
        if (frame === undefined) break
        const { type, message } = parseWork(frame, fromWorker)
        if (type === 'work.join') throw new WorkError('INVALID_MESSAGE', 'a worker joins once')
        if (type === 'work.output') this.#takeOutput(message)
        else if (type === 'work.result') this.#takeResult(message)
        else this.#takeFailure(message)
      }
    } catch (error) {
      reason = error
    }
    this.cut(reason ?? new Error('the worker left'))
    return reason
  }

  /** Ends the link. Its runs go to others, or fail. */
  cut(reason: unknown): void {
    if (this.#ending.signal.aborted) return
    this.#ending.abort(reason)
    for (const [id, run] of this.#runs) {
      this.#runs.delete(id)
      clearTimeout(run.cancelTimer)
      run.reject(gone(reason))
    }
  }

  /** @throws AgentError for a task that no frame can carry: the fault of the task, so the link and its other runs stay. */
  #framesOf(run: string, agent: string, task: WorkerTask): Uint8Array[] {
    const { input, callerId, history, onOutput, timeoutSeconds, outputBytesMax } = task
    const exchanges = this.worker.agents.get(agent)?.readsHistory === true ? latest(history) : []
    const message = {
      ...{ run, agent, caller: callerId.slice(0, 256), stream: onOutput !== undefined },
      ...{ timeout_seconds: timeoutSeconds, output_bytes_max: outputBytesMax },
    }
    try {
      const told = exchanges.length > 0 ? [encodeWork('work.history', { run, exchanges })] : []
      return [...told, encodeWork('work.task', { ...message, body: bodyOf(input) })]
    } catch (cause) {
      throw new AgentError('AGENT_FAILED', 'the task is too long for a worker', { cause })
    }
  }

  async #send(frames: readonly Uint8Array[]): Promise<void> {
    try {
      for (const frame of frames) await this.#stream.writeRaw(frame, this.#ending.signal)
    } catch (error) {
      this.cut(error)
    }
  }

  /** The run ends here at once. Its slot is free once the worker says that it has stopped. */
  #cancel(id: string): void {
    const run = this.#runs.get(id)
    if (run === undefined) return
    run.isCanceled = true
    run.reject(runCanceled())
    const late = () => this.cut(new Error('the worker did not stop a canceled run in time'))
    run.cancelTimer = setTimeout(late, this.#options.cancelMs ?? CANCEL_MS_MAX).unref()
    writeWork(this.#stream, 'work.cancel', { run: id }, this.#ending.signal).catch((error) => this.cut(error))
  }

  #takeOutput({ run: id, text }: WorkMessage<'work.output'>): void {
    const left = this.#ended.get(id)
    if (left !== undefined && left >= Buffer.byteLength(text)) {
      this.#ended.set(id, left - Buffer.byteLength(text))
      return
    }
    const run = this.#runOf(id)
    run.outputBytes += Buffer.byteLength(text)
    if (run.outputBytes > run.task.outputBytesMax) throw this.#tooLarge(id, run)
    if (!run.isCanceled) run.task.onOutput?.(text)
  }

  #takeResult({ run: id, body }: WorkMessage<'work.result'>): void {
    const run = this.#runOf(id)
    // Before it is decoded.
    if (Buffer.byteLength(body, 'base64') > run.task.outputBytesMax) throw this.#tooLarge(id, run)
    const output = textOf(body)
    this.#end(id, run)
    run.resolve(output)
  }

  #takeFailure({ run: id, code, message }: WorkMessage<'work.failed'>): void {
    const run = this.#runOf(id)
    this.#end(id, run)
    const reason = oneLine(message, FAILURE_LENGTH_MAX) || 'the agent failed'
    run.reject(new AgentError(isSeen(code, run) ? code : 'AGENT_FAILED', reason))
  }

  #runOf(id: string): Run {
    const run = this.#runs.get(id)
    if (run !== undefined) return run
    throw new WorkError('INVALID_MESSAGE', 'it answered a run that it was not given, or has answered already')
  }

  #tooLarge(id: string, run: Run): WorkError {
    this.#end(id, run)
    run.reject(outputTooLarge(run.task.outputBytesMax))
    return new WorkError('INVALID_MESSAGE', 'it sent more than the limit of the run')
  }

  #end(id: string, run: Run): void {
    clearTimeout(run.cancelTimer)
    this.#runs.delete(id)
    this.#ended.set(id, run.task.outputBytesMax)
    if (this.#ended.size > ENDED_MAX) this.#ended.delete(this.#ended.keys().next().value!)
    this.#free()
  }

  #free(): void {
    this.#taken -= 1
    this.#options.onFree()
  }
}

type LinkOptions = {
  clock: Clock
  onFree(): void
  /** Whether the worker may stay, by the ledger. */
  holds(): Promise<boolean>
  cancelMs?: number | undefined
}

/**
 * Whether the seller itself saw what a worker says of a run. What was shown until a limit is owed for (ADR-12), and a
 * worker’s word alone makes nobody owe. Without output nothing is. The seller measures the time, and ends the run by itself.
 */
function isSeen(code: WorkMessage<'work.failed'>['code'], { task, outputBytes, isCanceled }: Run): boolean {
  if (code === 'AGENT_CANCELLED') return isCanceled
  if (outputBytes === 0) return true
  if (code === 'AGENT_OUTPUT_TOO_LARGE') return outputBytes > task.outputBytesMax - CHARACTER_BYTES_MAX
  return code !== 'AGENT_TIMEOUT'
}

function gone(reason: unknown): WorkerGone {
  return new WorkerGone(`the worker went away: ${reasonOf(reason)}`, { cause: reason })
}

/** The newest exchanges that fit, oldest first. */
function latest(history: readonly Exchange[]): Exchange[] {
  let length = 0
  const from = history.findLastIndex(({ input, output }) => {
    length += input.length + output.length
    return length > HISTORY_LENGTH_MAX
  })
  return history.slice(from + 1).map(({ input, output }) => ({ input, output }))
}
