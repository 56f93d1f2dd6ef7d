import * as z from 'zod'
import { AgentRef, Canceled } from './api.ts'
import { RecordedPayment } from './order.ts'
import { Limit, NumberCursor } from './page.ts'

const CallerRef = z
  .string()
  .min(1)
  .max(256)
  .meta({ description: 'DID of the caller, proved by its connection, or `local` for the API of this node' })

export const SessionsParams = z.strictObject({ agentID: AgentRef })
export const SessionParams = z.strictObject({ agentID: AgentRef, callerID: CallerRef })
export const SessionsQuery = z.strictObject({
  limit: Limit,
  cursor: CallerRef.optional().meta({
    description: 'cursor of the next page, from the Link header of the previous page',
  }),
})
export const SessionQuery = z.strictObject({
  limit: Limit.meta({ description: 'number of executions to return; the Link header leads to earlier executions' }),
  cursor: NumberCursor.optional(),
})

export const SessionExchange = z
  .object({
    correlation_id: z.string(),
    input: z.string(),
    output: z.string().nullable().meta({ description: 'null if the task failed' }),
    error: z.string().optional(),
    canceled: Canceled,
    created_at: z.string(),
    duration_ms: z.number(),
    payment: RecordedPayment.optional(),
  })
  .meta({ id: 'SessionExchange' })
export type SessionExchange = z.infer<typeof SessionExchange>

/** The exchanges between one caller and one agent (D19). */
export const SessionRecord = z
  .object({
    id: z.string(),
    agent_id: z.string(),
    caller_id: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    exchanges: z
      .array(SessionExchange)
      .meta({ description: 'oldest first; only the latest executions of a long session' }),
  })
  .meta({ id: 'Session', description: 'The tasks of one caller and the answers of one agent.' })
export type SessionRecord = z.infer<typeof SessionRecord>
export const SessionRecords = z.array(SessionRecord)
