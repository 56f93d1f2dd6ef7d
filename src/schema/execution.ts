import * as z from 'zod'
import { ExecutionResult, Problem } from './api.ts'

/** How far an execution has come. */
export const ExecutionStatus = z
  .object({
    status: z.enum(['ordered', 'paying', 'running']),
    order_id: z.string(),
    correlation_id: z.string(),
  })
  .meta({ id: 'ExecutionStatus', description: 'How far an execution has come.' })
export type ExecutionStatus = z.infer<typeof ExecutionStatus>

/** What an agent says while it works. */
export const ExecutionOutput = z.object({
  text: z.string().meta({ description: 'follows what came before; data from another party, never to be trusted' }),
})

/** What is told of an execution while it goes on. */
export type ExecutionProgress = { type: 'status'; data: ExecutionStatus } | { type: 'output'; data: { text: string } }
export type OnProgress = (progress: ExecutionProgress) => void

/** Each type of event of a streamed execution, the last being one of the last two. */
export const executionEvents = {
  status: ExecutionStatus,
  output: ExecutionOutput,
  result: ExecutionResult,
  error: Problem,
} as const
