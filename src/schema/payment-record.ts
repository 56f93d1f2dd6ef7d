import * as z from 'zod'
import { Door } from './door.ts'
import { RecordedPayment } from './order.ts'

export const PaymentRecord = RecordedPayment.omit({ settlement: true })
  .extend({
    direction: z.enum(['in', 'out']).meta({ description: '`in`: received by this node; `out`: made by this node' }),
    order_id: z.string().optional().meta({ description: 'only for a payment that this node made' }),
    correlation_id: z.string().optional().meta({ description: 'only for a payment that this node received' }),
    agent_id: z.string(),
    agent_name: z.string().optional().meta({ description: 'present while the agent is known' }),
    peer_id: z.string().meta({ description: 'the buyer of a received payment, the seller of a payment made' }),
    door: Door.optional().meta({ description: 'the way by which a received payment came' }),
    state: RecordedPayment.shape.settlement,
    attempts: z.int().optional().meta({ description: 'attempts at settlement so far' }),
    next_attempt_at: z.string().optional(),
    error: z.string().optional(),
    challenge_nonce: z
      .string()
      .nullable()
      .meta({ description: 'challenge of the seller; null: a preemptive payment without a challenge' }),
    max_timeout_seconds: z.int().meta({ description: 'hash of the payment requirements' }),
    nonce: z
      .string()
      .optional()
      .meta({ description: 'nonce of the EIP-3009 authorization; absent for a call on a channel, which has none' }),
    valid_after: z.string().optional(),
    valid_before: z.string().optional().meta({ description: 'the payment cannot be settled after this time' }),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'Payment', description: 'A received or made payment in the ledger.' })
export type PaymentRecord = z.infer<typeof PaymentRecord>
