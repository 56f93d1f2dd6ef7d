import * as z from 'zod'
import { Price, PriceText } from './amount.ts'
import { AgentRef, agentOf, oddResultFields, Task, taskFields, taskOf } from './api.ts'
import { Book } from './book.ts'
import { ChannelWish } from './channel.ts'
import { ExecutionPayment } from './execution-payment.ts'
import { IdempotencyKey } from './idempotency.ts'
import { KEY_HOURS } from './limits.ts'
import { seekFields } from './page.ts'
import { expectedOf, refuseGiven, WebPurchase, webFields } from './web-purchase.ts'

export const orderStatuses = ['pending', 'executing', 'completed', 'failed', 'cancelled'] as const
export const OrderStatus = z.enum(orderStatuses).meta({
  description:
    '`pending`: waits for its task or its agent; `executing`: runs; `completed`, `failed` and `cancelled` are final',
})
export type OrderStatus = z.infer<typeof OrderStatus>

/** The body of POST /orders (D18). Strict, like every body that spends. */
export const CreateOrder = z
  .strictObject({
    agent_id: AgentRef.optional(),
    agentId: AgentRef.optional().meta({ description: 'another spelling of `agent_id`' }),
    price: z.union([PriceText, Price]).meta({ description: 'the most to pay, in USDC as decimal text or number' }),
    task: Task.optional().meta({ description: 'task for the agent; an order without a task waits for its execution' }),
    channel: ChannelWish.optional(),
    ...webFields,
  })
  .meta({ id: 'CreateOrder', description: 'Give `agent_id`; or `url`, and a task or a request.' })
  .transform(({ agentId, agent_id, url, method, headers, body, expected, channel, ...order }, context) => {
    const ofAgent = { agent_id, agentId, channel }
    const ofUrl = { method, headers, body, expected }
    if (url === undefined) {
      refuseGiven(ofUrl, 'needs url', context)
      return { ...order, ...(channel && { channel }), agent_id: agentOf(agent_id, agentId, context) }
    }
    refuseGiven(ofAgent, 'does not go with url', context)
    return { ...order, url, ...ofUrl, expected: expected && expectedOf(expected) }
  })
export type CreateOrder = z.output<typeof CreateOrder>

/** The body of POST /orders/{id}/execute. */
export const ExecuteOrder = z
  .strictObject({ task: taskFields.task, input: taskFields.input })
  .meta({ id: 'ExecuteOrder', description: 'Give `task` or `input`.' })
  .transform((body, context) => ({ task: taskOf(body, context) }))

export const OrderRef = z.string().min(1).max(100).meta({ description: 'id of the order' })
export const OrderParams = z.strictObject({ id: OrderRef })

export const OrderQuery = z.strictObject({
  status: OrderStatus.optional(),
  agent_id: AgentRef.optional(),
  idempotency_key: IdempotencyKey.optional().meta({
    description: `only orders made with this key in the last ${KEY_HOURS} hours`,
  }),
  ...seekFields,
})
export type OrderQuery = z.output<typeof OrderQuery>

export const CallError = z
  .object({
    code: z.string(),
    message: z.string(),
    retryable: z.boolean().meta({ description: 'whether another order for the same call may succeed' }),
  })
  .meta({ id: 'CallError', description: 'Why the order failed.' })
export type CallError = z.infer<typeof CallError>

/** A payment as a ledger shows it. Unlike an execution's answer, it may be open or never charged. */
export const RecordedPayment = ExecutionPayment.extend({
  book: Book,
  refund_tx_hash: z.string().optional().meta({ description: 'transaction in which the seller paid the amount back' }),
  settles_first: z
    .boolean()
    .optional()
    .meta({ description: 'true: the seller settles before the agent runs, so a failed run is also paid' }),
  settlement: z.enum(['settled', 'claimed', 'pending', 'reserved', 'released', 'voided', 'failed']).meta({
    description:
      '`settled`: the chain shows the transfer, or a payment channel covers it; `claimed`: the seller names `tx_hash`, but the chain does not show it yet; ' +
      '`pending`: owed, and settlement is still running; `reserved`: signed, so the seller can still settle; ' +
      '`released`: can never be settled, and nothing was charged; `voided`: the agent failed, and nobody is charged; `failed`: ' +
      'this node worked and was not paid',
  }),
}).meta({ id: 'RecordedPayment', description: 'A payment and its state.' })
export type RecordedPayment = z.infer<typeof RecordedPayment>

/** A purchase, paid or free (D18). */
export const OrderRecord = z
  .object({
    id: z.string(),
    agent_id: z.string(),
    agent_name: z.string().optional().meta({ description: 'name of the agent at the time of the order' }),
    seller_id: z.string().nullable().meta({ description: 'null until the agent is known' }),
    seller_name: z.string().optional().meta({ description: 'name of the seller at the time of the order' }),
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
    channel: ChannelWish.optional().meta({ description: 'what was wanted of payment channels, unless it was `auto`' }),
    correlation_id: z.string().optional(),
    payment: RecordedPayment.optional(),
    approval_id: z.string().optional().meta({ description: 'the approval that the order waits or waited for' }),
    workflow_id: z.string().optional().meta({ description: 'the workflow that placed the order' }),
    step_id: z.string().optional(),
    bought_for: z
      .object({ agent_id: z.string(), agent_name: z.string() })
      .optional()
      .meta({ description: 'the agent of this node that placed the order for its own work' }),
    web: WebPurchase.optional().meta({ description: 'present if it was bought from an x402 seller over HTTP' }),
    cancel_requested: z.boolean().optional().meta({
      description: 'the order was canceled while it ran; it stays `executing` until its payment is known',
    }),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'Order', description: 'A purchase.' })
export type OrderRecord = z.infer<typeof OrderRecord>
export const OrderRecords = z.array(OrderRecord)
