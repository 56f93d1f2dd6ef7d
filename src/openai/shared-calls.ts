import { type Clock, monotonicOf } from '../lib/clock.ts'

/** How long the outcome of a call answers a request that is sent again. */
export const JOIN_MS = 30_000
/** The same for a failure. LangChain retries for two minutes, even when told not to. */
export const JOIN_FAILED_MS = 5 * 60_000
/** Calls remembered. Beyond it the oldest call that has ended is forgotten. */
const CALLS_MAX = 1_000

type Run<T> = (signal: AbortSignal) => Promise<T>

/**
 * How a call that has ended answers the same request once more, so that no result is kept in memory. Undefined: the call
 * is forgotten, and the request runs again.
 */
type Keeping<T> = {
  afterResult(outcome: T): Run<T> | undefined
  afterFailure(error: unknown): Run<T> | undefined
}

type SharedCall<T> = {
  /** The outcome, or reads it again. */
  outcome: Run<T>
  readonly running: Promise<T>
  readonly left: AbortController
  present: number
  /** By the monotonic clock. */
  endedAt: number | undefined
  /** How long the call answers requests after its end. */
  joinMs: number
}

/**
 * Joins requests that ask for the same: a client that sends its request again gets the outcome of the first one, while
 * it runs and for 30 s after its end, or for 5 min if it has failed. A call is aborted when all its clients have left.
 */
export class SharedCalls<T> {
  readonly #calls = new Map<string, SharedCall<T>>()
  readonly #clock: Clock
  readonly #keeping: Keeping<T>

  constructor(clock: Clock, keeping: Keeping<T>) {
    this.#clock = clock
    this.#keeping = keeping
  }

  /** Waits for the outcome of the call with this key. Runs it if there is none. */
  async join(key: string, signal: AbortSignal, run: Run<T>): Promise<T> {
    let call = this.#known(key)
    // All clients of that call have left, and it is ending. Its outcome decides what this client gets.
    while (call?.left.signal.aborted && call.endedAt === undefined) {
      await call.running.catch(() => undefined)
      call = this.#known(key)
    }
    call ??= this.#begin(key, run)
    return this.#attend(call, signal)
  }

  async #attend(call: SharedCall<T>, signal: AbortSignal): Promise<T> {
    call.present++
    const { promise: gone, reject } = Promise.withResolvers<never>()
    const leave = () => {
      call.present--
      // The last client gets the outcome of the aborted call. Earlier ones get only the reason, because the call goes on.
      if (call.present === 0) call.left.abort(signal.reason)
      else reject(signal.reason)
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      return await Promise.race([call.outcome(signal), gone])
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  #known(key: string): SharedCall<T> | undefined {
    const call = this.#calls.get(key)
    if (call === undefined) return undefined
    const { endedAt, joinMs } = call
    if (endedAt === undefined || monotonicOf(this.#clock) - endedAt < joinMs) return call
    this.#calls.delete(key)
    return undefined
  }

  #begin(key: string, run: Run<T>): SharedCall<T> {
    this.#makeRoom()
    const left = new AbortController()
    const running = run(left.signal)
    const state = { present: 0, endedAt: undefined, joinMs: JOIN_MS }
    const call: SharedCall<T> = { outcome: () => running, running, left, ...state }
    this.#calls.set(key, call)
    running.then(
      (outcome) => this.#end(key, call, this.#keeping.afterResult(outcome)),
      (error: unknown) => {
        call.joinMs = JOIN_FAILED_MS
        this.#end(key, call, this.#keeping.afterFailure(error))
      },
    )
    return call
  }

  #end(key: string, call: SharedCall<T>, again: Run<T> | undefined): void {
    call.endedAt = monotonicOf(this.#clock)
    if (again !== undefined) call.outcome = again
    else if (this.#calls.get(key) === call) this.#calls.delete(key)
  }

  #makeRoom(): void {
    if (this.#calls.size < CALLS_MAX) return
    for (const [key, { endedAt }] of this.#calls) {
      if (endedAt === undefined) continue
      this.#calls.delete(key)
      return
    }
  }
}
