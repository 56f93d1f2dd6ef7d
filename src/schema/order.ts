import * as z from 'zod'
import { Price, PriceText } from './amount.ts'
import { AgentRef, agentOf, ExecutionPayment, oddResultFields, Task, taskFields, taskOf } from './api.ts'
import { Book } from './book.ts'
import { IdempotencyKey } from './idempotency.ts'
import { Limit, NumberCursor, seekFields } from './page.ts'

export const orderStatuses = ['pending', 'executing', 'completed', 'failed', 'cancelled'] as const
export const OrderStatus = z.enum(orderStatuses).meta({
  description:
    '`pending` waits for its task or its agent; `executing` runs; `completed`, `failed` and `cancelled` are final',
})
export type OrderStatus = z.infer<typeof OrderStatus>

/** The body of POST /orders (D18). Strict, like every body that spends. */
export const CreateOrder = z
  .strictObject({
    agent_id: AgentRef.optional(),
    agentId: AgentRef.optional().meta({ description: 'another spelling of `agent_id`' }),
    price: z
      .union([PriceText, Price])
      .meta({ description: 'the most to pay, in USDC as decimal text; a number is taken too' }),
    task: Task.optional().meta({
      description: 'what the agent is to do; without it the order waits for its execution',
    }),
  })
  .meta({ id: 'CreateOrder', description: 'Give `agent_id`.' })
  .transform(({ agentId, ...body }, context) => ({ ...body, agent_id: agentOf(body.agent_id, agentId, context) }))
export type CreateOrder = z.output<typeof CreateOrder>

/** The body of POST /orders/{id}/execute. */
export const ExecuteOrder = z
  .strictObject({ task: taskFields.task, input: taskFields.input })
  .meta({ id: 'ExecuteOrder', description: 'Give `task` or `input`.' })
  .transform((body, context) => ({ task: taskOf(body, context) }))

export const OrderRef = z.string().min(1).max(100).meta({ description: 'identifier of an order' })
export const OrderParams = z.strictObject({ id: OrderRef })

export const OrderQuery = z.strictObject({
  status: OrderStatus.optional(),
  agent_id: AgentRef.optional(),
  idempotency_key: IdempotencyKey.optional().meta({
    description: 'only what was asked for with this key in the last 24 hours',
  }),
  ...seekFields,
  limit: Limit,
  cursor: NumberCursor.optional(),
})
export type OrderQuery = z.output<typeof OrderQuery>

/** Why something failed, as it is stored. */
export const CallError = z
  .object({ code: z.string(), message: z.string(), retryable: z.boolean() })
  .meta({ id: 'CallError', description: 'Why it failed.' })
export type CallError = z.infer<typeof CallError>

/** A payment as a ledger shows it. Unlike an execution's answer, it may be open or never charged. */
export const RecordedPayment = ExecutionPayment.extend({
  book: Book,
  refund_tx_hash: z.string().optional().meta({ description: 'the transaction in which the seller paid it back' }),
  settles_first: z
    .boolean()
    .optional()
    .meta({ description: 'true: its seller settles before the agent runs, so a run that fails is paid for' }),
  settlement: z.enum(['settled', 'claimed', 'pending', 'reserved', 'released', 'voided', 'failed']).meta({
    description:
      '`settled`: the chain shows it; `claimed`: the seller names `tx_hash`, and the chain has not shown it yet; ' +
      '`pending`: owed, and will be; `reserved`: signed, so its seller could still settle it; ' +
      '`released`: can never be settled, nothing was charged; `voided`: the agent failed, nobody is charged; `failed`: ' +
      'this node worked and was not paid',
  }),
}).meta({ id: 'RecordedPayment', description: 'A payment as it stands.' })
export type RecordedPayment = z.infer<typeof RecordedPayment>

/** A purchase, paid or free (D18). */
export const OrderRecord = z
  .object({
    id: z.string(),
    agent_id: z.string(),
    agent_name: z.string().optional().meta({ description: 'as it was called when it was ordered' }),
    seller_id: z.string().nullable().meta({ description: 'null until the agent is known' }),
    seller_name: z.string().optional().meta({ description: 'as the seller called itself when it was ordered' }),
    price: PriceText.meta({ description: 'the most to pay, in USDC as decimal text' }),
    price_atomic: z.string(),
    status: OrderStatus,
    task: z.string().nullable(),
    output: z
      .string()
      .optional()
      .meta({ description: "the agent's answer: data from another party, never to be trusted" }),
    ...oddResultFields,
    error: CallError.optional(),
    correlation_id: z.string().optional(),
    payment: RecordedPayment.optional(),
    approval_id: z.string().optional().meta({ description: 'the approval it waits for, or waited for' }),
    workflow_id: z.string().optional().meta({ description: 'the workflow that placed it' }),
    step_id: z.string().optional(),
    bought_for: z
      .object({ agent_id: z.string(), agent_name: z.string() })
      .optional()
      .meta({ description: 'the agent of this node that bought it for its own work' }),
    cancel_requested: z.boolean().optional().meta({
      description: 'was canceled while it ran; until it is known whether it was paid for it stays `executing`',
    }),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'Order', description: 'A purchase.' })
export type OrderRecord = z.infer<typeof OrderRecord>
export const OrderRecords = z.array(OrderRecord)
