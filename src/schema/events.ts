import * as z from 'zod'
import { NodeStatus } from './api.ts'
import { ApprovalRecord } from './approval.ts'
import { BudgetRecord } from './budget.ts'
import { OrderRecord } from './order.ts'
import { PaymentRecord } from './payment-record.ts'
import { WorkflowRecord } from './workflow.ts'

const ListingEvent = z
  .object({
    change: z.enum(['listed', 'updated', 'delisted']),
    agent_id: z.string(),
    name: z.string().optional(),
    seller_id: z.string(),
  })
  .meta({ id: 'ListingEvent', description: 'A listing that was added, changed or removed.' })

/** The events that the node publishes, by type, with the schema of their data. */
export const nodeEvents = {
  listing: ListingEvent,
  order: OrderRecord,
  payment: PaymentRecord,
  workflow: WorkflowRecord,
  /** As in GET /approvals. */
  approval: ApprovalRecord,
  /** As in GET /budget, published when its rules change. */
  budget: BudgetRecord,
  status: NodeStatus,
} as const
export type NodeEvents = { [T in keyof typeof nodeEvents]: z.infer<(typeof nodeEvents)[T]> }
export type EventType = keyof NodeEvents
export const eventTypes = Object.keys(nodeEvents) as EventType[]

/** An event as an API client reads it. A `reset` means that events were missed. */
export type NodeEvent =
  | { [T in EventType]: { id: string; type: T; data: NodeEvents[T] } }[EventType]
  | { id: string; type: 'reset' }

export function encodeEvent(event: NodeEvent): object {
  if (event.type === 'reset') return event
  const { id, type, data } = event
  return { id, type, data: z.encode(nodeEvents[type] as z.ZodType, data as never) }
}

const anyType = `(?:${eventTypes.join('|')})`
export const EventsQuery = z.strictObject({
  types: z
    .string()
    .regex(
      new RegExp(`^${anyType}(?:,${anyType})*$`),
      `must be a list of ${eventTypes.join(', ')}, separated by commas`,
    )
    .optional()
    .meta({ description: `only these types, separated by commas: ${eventTypes.join(', ')}` }),
})
export const EventTypes = z.string().transform((text) => text.split(',') as EventType[])
