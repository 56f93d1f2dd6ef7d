import * as z from 'zod'
import { NodeStatus } from './api.ts'
import { ApprovalRecord } from './approval.ts'
import { BudgetRecord } from './budget.ts'
import { OrderRecord } from './order.ts'
import { PaymentRecord } from './payment-record.ts'
import { WorkflowRecord } from './workflow.ts'

/** A listing that came, changed or went. */
export const ListingEvent = z
  .object({
    change: z.enum(['listed', 'updated', 'delisted']),
    agent_id: z.string(),
    name: z.string().optional(),
    seller_id: z.string(),
  })
  .meta({ id: 'ListingEvent', description: 'A listing that came, changed or went.' })
export type ListingEvent = z.infer<typeof ListingEvent>

/** What the node tells while it happens: each type of event, and what its data are. */
export const nodeEvents = {
  listing: ListingEvent,
  order: OrderRecord,
  payment: PaymentRecord,
  workflow: WorkflowRecord,
  /** As GET /approvals has it. */
  approval: ApprovalRecord,
  /** As GET /budget has it, when its rules have changed. */
  budget: BudgetRecord,
  status: NodeStatus,
} as const
export type NodeEvents = { [T in keyof typeof nodeEvents]: z.infer<(typeof nodeEvents)[T]> }
export type EventType = keyof NodeEvents
export const eventTypes = Object.keys(nodeEvents) as EventType[]

/** An event as a client of the API reads it. After a `reset` it has missed some. */
export type NodeEvent =
  | { [T in EventType]: { id: string; type: T; data: NodeEvents[T] } }[EventType]
  | { id: string; type: 'reset' }

/** An event as JSON has it. */
export function encodeEvent(event: NodeEvent): object {
  if (event.type === 'reset') return event
  const { id, type, data } = event
  return { id, type, data: z.encode(nodeEvents[type] as z.ZodType, data as never) }
}

const anyType = `(?:${eventTypes.join('|')})`
export const EventsQuery = z.strictObject({
  types: z
    .string()
    .regex(new RegExp(`^${anyType}(?:,${anyType})*$`), `is no list of ${eventTypes.join(', ')}, with commas between`)
    .optional()
    .meta({ description: `only these, with commas between: ${eventTypes.join(', ')}` }),
})
export const EventTypes = z.string().transform((text) => text.split(',') as EventType[])
