import { availableParallelism } from 'node:os'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { checkSignature, packChecks, type SignatureCheck } from './signature.ts'

/** Fewer signatures than this are not worth a thread. */
const FEW = 8
/** A thread takes 10 MB of memory, so it ends after this long without work. */
const IDLE_MS = 10_000

type Few = { checks: readonly SignatureCheck[]; settle(genuine: Promise<boolean[]>): void }
type Job = { checks: readonly SignatureCheck[]; settle(genuine: boolean[]): void; fail(error: unknown): void }

/**
 * Checks signatures by the hundreds in its own threads, for example when a replica catches up with a whole market.
 *
 * Node's thread pool can check them too. But it costs the event loop 12 µs a signature instead of 1 µs, and its four
 * threads would take all cores. This pool leaves one core to the rest of the node. Threads start with the first job.
 */
export class SignaturePool {
  readonly #threadsMax: number
  readonly #idle: Thread[] = []
  readonly #waiting: Job[] = []
  /** Small requests of this turn of the event loop. */
  #few: Few[] = []
  #threads = 0

  constructor(options: { threadsMax?: number } = {}) {
    this.#threadsMax = options.threadsMax ?? Math.max(1, availableParallelism() - 1)
  }

  /**
   * Returns which signatures are genuine. The caller bounds the number, for example one batch of a session at a time.
   * Small requests, as from gossip, are checked together.
   */
  async check(checks: readonly SignatureCheck[]): Promise<boolean[]> {
    if (checks.length >= FEW) return this.#checkAll(checks)
    return new Promise((settle) => {
      if (this.#few.length === 0) setImmediate(() => this.#checkFew())
      this.#few.push({ checks, settle })
    })
  }

  #checkFew(): void {
    const few = this.#few
    this.#few = []
    const genuine = this.#checkAll(few.flatMap(({ checks }) => checks))
    let from = 0
    for (const { checks, settle } of few) {
      const [begin, end] = [from, from + checks.length]
      settle(genuine.then((answers) => answers.slice(begin, end)))
      from = end
    }
  }

  async #checkAll(checks: readonly SignatureCheck[]): Promise<boolean[]> {
    if (checks.length < FEW) return Promise.all(checks.map(checkSignature))
    return new Promise((settle, fail) => {
      this.#waiting.push({ checks, settle, fail })
      this.#next()
    })
  }

  #next(): void {
    const [job] = this.#waiting
    if (job === undefined) return
    const thread = this.#idle.pop() ?? this.#start()
    if (thread === undefined) return
    this.#waiting.shift()
    void this.#run(job, thread).finally(() => this.#next())
  }

  async #run({ checks, settle, fail }: Job, thread: Thread): Promise<void> {
    try {
      const answers = await thread.run(packChecks(checks))
      this.#idle.push(thread)
      settle(Array.from(answers, (answer) => answer === 1))
    } catch {
      // A thread died, for example because memory is short. Node's pool checks instead.
      this.#threads--
      await Promise.all(checks.map(checkSignature)).then(settle, fail)
    }
  }

  #start(): Thread | undefined {
    if (this.#threads >= this.#threadsMax) return undefined
    this.#threads++
    const thread = new Thread(() => {
      this.#idle.splice(this.#idle.indexOf(thread), 1)
      this.#threads--
    })
    return thread
  }
}

/** One worker thread. It keeps no process alive, and ends after a while without work. */
class Thread {
  readonly #worker: Worker
  readonly #ended: () => void
  #idle: NodeJS.Timeout | undefined

  constructor(ended: () => void) {
    // The worker file is in the same folder and has the same extension: .ts from the sources, .js when built.
    const file = new URL(`./signature-worker${extname(import.meta.url)}`, import.meta.url)
    const resourceLimits = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 8 }
    this.#worker = new Worker(file, { resourceLimits, execArgv: [] })
    this.#worker.unref()
    // Without a listener an error would end the process. `run` reports the end of the thread to its caller.
    this.#worker.on('error', () => {})
    this.#ended = ended
  }

  run(packed: Uint8Array): Promise<Uint8Array> {
    clearTimeout(this.#idle)
    const worker = this.#worker
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void) => {
        worker.off('message', answered)
        worker.off('exit', exited)
        finish()
      }
      const answered = (answers: Uint8Array) =>
        settle(() => {
          this.#idle = setTimeout(() => this.#end(), IDLE_MS).unref()
          resolve(answers)
        })
      const exited = () => settle(() => reject(new Error('the thread has ended')))
      worker.on('message', answered)
      worker.on('exit', exited)
      worker.postMessage(packed)
    })
  }

  #end(): void {
    this.#ended()
    void this.#worker.terminate()
  }
}
