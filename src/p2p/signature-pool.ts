import { availableParallelism } from 'node:os'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { checkSignature, packChecks, type SignatureCheck } from './signature.ts'

/** Fewer are not worth a thread's while. */
const FEW = 8
/** A thread costs 10 MB: it ends when it has had nothing to do for so long. */
const IDLE_MS = 10_000

type Few = { checks: readonly SignatureCheck[]; settle(genuine: Promise<boolean[]>): void }
type Job = { checks: readonly SignatureCheck[]; settle(genuine: boolean[]): void; fail(error: unknown): void }

/**
 * Checks signatures by the hundred in threads of their own, as when a replica catches up with a whole market.
 *
 * Node's thread pool can do it too, but costs the event loop 12 µs a signature against 1, and its four threads would take
 * all cores from it; here one core is left to the rest of the node. Threads start with the first job.
 */
export class SignaturePool {
  readonly #threadsMax: number
  readonly #idle: Thread[] = []
  readonly #waiting: Job[] = []
  /** What came in few at a time in this turn of the event loop. */
  #few: Few[] = []
  #threads = 0

  constructor(options: { threadsMax?: number } = {}) {
    this.#threadsMax = options.threadsMax ?? Math.max(1, availableParallelism() - 1)
  }

  /**
   * Which of them are genuine. Who asks bounds how much: a batch of a session at a time. What comes in few at a time, as
   * gossip does, is checked together.
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
      // A thread that died, as it may where memory is short: Node's pool does it instead.
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

/** One worker, which keeps no process alive, and ends after a while without work. */
class Thread {
  readonly #worker: Worker
  readonly #ended: () => void
  #idle: NodeJS.Timeout | undefined

  constructor(ended: () => void) {
    // Beside this file, and of its kind: .ts where Node runs the sources, .js where they were built.
    const file = new URL(`./signature-worker${extname(import.meta.url)}`, import.meta.url)
    const resourceLimits = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 8 }
    this.#worker = new Worker(file, { resourceLimits, execArgv: [] })
    this.#worker.unref()
    // Without a listener it would end the process; who waits for an answer is told by `run`.
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
