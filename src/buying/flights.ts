import { resultPending } from '../listings/market-error.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { ExecutionStatus, OnProgress } from '../schema/execution.ts'

/** The link between an execution and its callers. */
export type Attendance = {
  /** Calls `leave` once no caller waits any more: at once, if none does. The execution goes on without callers after `onSigning`. */
  onLeft(leave: (reason: unknown) => void): void
  /** Called before the signature. */
  onSigning(): void
}

/** An observer of an executing order. Only the final result counts; output of a failed run is worth nothing. */
export type Watch = {
  status(status: ExecutionStatus['status']): void
  output(text: string): void
}

export function watchOf(order: { id: string; correlationId: string }, onProgress: OnProgress): Watch {
  return {
    status: (status) =>
      onProgress({ type: 'status', data: { status, order_id: order.id, correlation_id: order.correlationId } }),
    output: (text) => onProgress({ type: 'output', data: { text } }),
  }
}

export class Flight {
  readonly #order: { id: string; correlationId: string }
  #leave: ((reason: unknown) => void) | undefined
  /** Why the last caller has left before the signature. */
  #left: { reason: unknown } | undefined
  #present = 0
  #isSigned = false
  /** The outcome, even if no caller waits. */
  readonly result: Promise<ExecutionResult>

  constructor(
    order: { id: string; correlationId: string },
    run: (call: Attendance) => Promise<ExecutionResult>,
    onSigning?: () => void,
  ) {
    this.#order = order
    this.result = run({
      onLeft: (leave) => {
        this.#leave = leave
        if (this.#left !== undefined) leave(this.#left.reason)
      },
      onSigning: () => {
        this.#isSigned = true
        this.#leave = undefined
        onSigning?.()
      },
    })
  }

  /**
   * Waits for the result until `signal` aborts. Before the signature, the execution ends when its last caller leaves.
   * After the signature, a leaving caller gets RESULT_PENDING and the order goes on (D38).
   */
  async attend(signal: AbortSignal): Promise<ExecutionResult> {
    const { promise: gone, reject } = Promise.withResolvers<never>()
    this.#present++
    const leave = () => {
      this.#present--
      if (this.#isSigned) reject(resultPending(this.#order))
      else if (this.#present === 0) this.#abandon(signal.reason)
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
    try {
      return await Promise.race([this.result, gone])
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  #abandon(reason: unknown): void {
    this.#left ??= { reason }
    this.#leave?.(reason)
  }
}

/** Running executions that have or had a waiting caller, by order id. */
export type Flights = Map<string, Flight>
