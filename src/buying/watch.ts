import type { ExecutionStatus, OnProgress } from '../schema/execution.ts'

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
