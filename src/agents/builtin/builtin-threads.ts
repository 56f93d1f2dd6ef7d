import { availableParallelism } from 'node:os'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { AgentError, runCanceled } from '../runtime.ts'
import type { BuiltinName } from './builtin-table.ts'

/** One core stays free for the rest of the node. At most two, because built-in agents are only a part of the work. */
const THREADS_MAX = Math.max(1, Math.min(2, availableParallelism() - 1))
/** Tasks that wait for a thread. The node limits its runs below this number, so this is a last resort. */
const WAITING_MAX = 512
/** An idle thread ends after this time, because it costs 10 MB. */
const IDLE_MS = 10_000
/** Several times the memory of a task at its size limit. */
const resourceLimits = { maxOldGenerationSizeMb: 384, maxYoungGenerationSizeMb: 32 }

export type BuiltinTask = { name: BuiltinName; input: string }
/** The answer of a thread. A failure that the task did not cause has no text. */
export type BuiltinAnswer = { output: string } | { failure: string | undefined }

type Job = {
  task: BuiltinTask
  signal: AbortSignal
  settle(output: string): void
  fail(error: AgentError): void
  /** Cancels the job while it waits. */
  leave(): void
}

/** Runs tasks of built-in agents in worker threads. Canceling a task ends its thread at once. */
export class BuiltinThreads {
  readonly #idle: { worker: Worker; timer: NodeJS.Timeout }[] = []
  readonly #waiting: Job[] = []
  #threads = 0

  /** @throws AgentError */
  run(task: BuiltinTask, signal: AbortSignal): Promise<string> {
    if (signal.aborted) return Promise.reject(runCanceled())
    if (this.#waiting.length >= WAITING_MAX)
      return Promise.reject(new AgentError('AGENT_FAILED', 'too many tasks wait for this agent: try again'))
    return new Promise((settle, fail) => {
      const job = { task, signal, settle, fail, leave }
      this.#waiting.push(job)
      const waiting = this.#waiting
      function leave() {
        waiting.splice(waiting.indexOf(job), 1)
        fail(runCanceled())
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#next()
    })
  }

  #next(): void {
    if (this.#waiting.length === 0) return
    const worker = this.#idleWorker() ?? this.#start()
    if (worker === undefined) return
    const job = this.#waiting.shift()!
    job.signal.removeEventListener('abort', job.leave)
    this.#work(job, worker)
  }

  #work({ task, signal, settle, fail }: Job, worker: Worker): void {
    const end = (isAlive: boolean, finish: () => void) => {
      worker.off('message', answered).off('exit', exited).off('error', exited)
      signal.removeEventListener('abort', stop)
      if (isAlive) this.#rest(worker)
      else this.#drop(worker)
      finish()
      this.#next()
    }
    const answered = (answer: BuiltinAnswer) =>
      end(true, () => {
        if ('output' in answer) settle(answer.output)
        else fail(new AgentError('AGENT_FAILED', answer.failure ?? 'the agent failed'))
      })
    // For example, the thread ran out of memory.
    const exited = () => end(false, () => fail(new AgentError('AGENT_FAILED', 'the task is too much for this agent')))
    const stop = () => end(false, () => fail(runCanceled()))
    worker.on('message', answered).on('exit', exited).on('error', exited)
    signal.addEventListener('abort', stop, { once: true })
    worker.ref()
    worker.postMessage(task)
  }

  #idleWorker(): Worker | undefined {
    const rested = this.#idle.pop()
    clearTimeout(rested?.timer)
    return rested?.worker
  }

  #start(): Worker | undefined {
    if (this.#threads >= THREADS_MAX) return undefined
    this.#threads++
    // The worker has the extension of this file: .ts when Node runs the sources, .js in a build.
    const file = new URL(`./builtin-worker${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(file, { resourceLimits, execArgv: [] })
    // Without a listener, an error between two tasks would end the process.
    worker.on('error', () => {})
    return worker
  }

  /** Keeps an idle thread for a while. An idle thread does not keep the process alive. */
  #rest(worker: Worker): void {
    worker.unref()
    const timer = setTimeout(() => {
      this.#idle.splice(
        this.#idle.findIndex((one) => one.worker === worker),
        1,
      )
      this.#drop(worker)
    }, IDLE_MS).unref()
    this.#idle.push({ worker, timer })
  }

  #drop(worker: Worker): void {
    this.#threads--
    void worker.terminate()
  }
}
