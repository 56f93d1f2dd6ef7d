import { resultPending } from '../listings/market-error.ts'
import type { ExecutionResult } from '../schema/api.ts'

/** What an execution is told, and says, of its callers. */
export type Attendance = {
  /** Aborts when nobody waits any more. */
  left: AbortSignal
  /** Something is about to be signed: from here on it goes on without its callers. */
  onSigning(): void
}

/** An execution under way, and who waits for it. */
export class Flight {
  readonly #order: { id: string; correlationId: string }
  readonly #left = new AbortController()
  #present = 0
  #isSigned = false
  /** How it ends, whoever waits. */
  readonly result: Promise<ExecutionResult>

  constructor(
    order: { id: string; correlationId: string },
    run: (call: Attendance) => Promise<ExecutionResult>,
    onSigning?: () => void,
  ) {
    this.#order = order
    this.result = run({
      left: this.#left.signal,
      onSigning: () => {
        this.#isSigned = true
        onSigning?.()
      },
    })
  }

  /**
   * Waits for the result. A caller whose signal aborts has left: before the signature the last one to leave ends the execution;
   * after it each is told that the order goes on (D38).
   */
  async attend(signal: AbortSignal): Promise<ExecutionResult> {
    const { promise: gone, reject } = Promise.withResolvers<never>()
    this.#present++
    const leave = () => {
      this.#present--
      if (this.#isSigned) reject(resultPending(this.#order))
      else if (this.#present === 0) this.#left.abort(signal.reason)
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      return await Promise.race([this.result, gone])
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }
}

/** Executions that a caller waits for, or waited for, by their orders, as long as they run. */
export type Flights = Map<string, Flight>
