import type { ExecutionStatus, OnProgress } from '../schema/execution.ts'

/** Who looks on while an order executes. What is shown of a run that fails is worth nothing: only the result counts. */
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
