import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { toldTo } from '../store/store-error.ts'
import type { MarketTools } from '../tools/tools.ts'
import type { CallTool } from './server.ts'
import { type ToolFailure, toolFailure, toolResult } from './tool-result.ts'

/** Progress interval. Clients give up on a silent call. */
const PROGRESS_MS = 10_000

/** Calls the market tools of this node. `stopping` ends running calls. */
export function marketCall(tools: MarketTools, deps: { logger: Logger; stopping: AbortSignal }): CallTool {
  return async (name, args, { caller, signal, progress }) => {
    const timer = setInterval(() => progress('the agent is at work'), PROGRESS_MS)
    timer.unref()
    try {
      return toolResult(await tools.call(name, args, { caller, signal: AbortSignal.any([signal, deps.stopping]) }))
    } catch (error) {
      const failure = failureOf(toldTo(caller, error))
      if (failure !== undefined) return toolFailure(failure)
      deps.logger.error({ err: error, operation: name }, 'a tool failed inside the node')
      return toolFailure({ code: 'INTERNAL', message: 'the node failed; its log has the cause' })
    } finally {
      clearInterval(timer)
    }
  }
}

/** Only errors with a code may be shown to the client. */
function failureOf(error: unknown): ToolFailure | undefined {
  if (!(error instanceof CodedError)) return undefined
  const { retryable, correlationId, orderId } = error as unknown as Record<string, unknown>
  return {
    code: error.code,
    message: error.message,
    ...(typeof retryable === 'boolean' && { retryable }),
    ...(typeof correlationId === 'string' && { correlation_id: correlationId }),
    ...(typeof orderId === 'string' && { order_id: orderId }),
  }
}
