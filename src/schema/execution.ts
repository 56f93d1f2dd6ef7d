import * as z from 'zod'
import { ExecutionResult, Problem } from './api.ts'

export const ExecutionStatus = z
  .object({
    status: z.enum(['ordered', 'paying', 'running']),
    order_id: z.string(),
    correlation_id: z.string(),
  })
  .meta({ id: 'ExecutionStatus', description: 'Progress of an execution.' })
export type ExecutionStatus = z.infer<typeof ExecutionStatus>

/** What an agent outputs while it works. */
const ExecutionOutput = z.object({
  text: z
    .string()
    .meta({ description: 'continues the output before it; data from another party, never to be trusted' }),
})

/** An event of a running execution. */
export type ExecutionProgress = { type: 'status'; data: ExecutionStatus } | { type: 'output'; data: { text: string } }
export type OnProgress = (progress: ExecutionProgress) => void

/** The event types of a streamed execution. The last event is a `result` or an `error`. */
export const executionEvents = {
  status: ExecutionStatus,
  output: ExecutionOutput,
  result: ExecutionResult,
  error: Problem,
} as const
