import * as z from 'zod'
import { RecordedPayment } from './order.ts'

/** A payment of either direction, as the ledger shows it. */
export const PaymentRecord = RecordedPayment.omit({ settlement: true })
  .extend({
    direction: z.enum(['in', 'out']).meta({ description: '`in`: for an agent of this node; `out`: by this node' }),
    order_id: z.string().optional().meta({ description: 'of one that went out' }),
    correlation_id: z.string().optional().meta({ description: 'of one that came in' }),
    agent_id: z.string(),
    agent_name: z.string().optional().meta({ description: 'while the agent is known' }),
    peer_id: z.string().meta({ description: 'the buyer of one that came in, the seller of one that went out' }),
    state: RecordedPayment.shape.settlement,
    attempts: z.int().optional().meta({ description: 'at settlement, so far' }),
    next_attempt_at: z.string().optional(),
    error: z.string().optional(),
    challenge_nonce: z
      .string()
      .nullable()
      .meta({ description: 'what the seller asked it under; null: it came unasked' }),
    max_timeout_seconds: z.int().meta({ description: 'of the requirements that it answers' }),
    nonce: z.string().meta({ description: 'of the EIP-3009 authorization' }),
    valid_after: z.string(),
    valid_before: z.string().meta({ description: 'after this it can no longer be settled' }),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'Payment', description: 'A payment, received or made, as the ledger has it.' })
export type PaymentRecord = z.infer<typeof PaymentRecord>
