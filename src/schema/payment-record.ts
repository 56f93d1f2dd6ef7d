import * as z from 'zod'
import { RecordedPayment } from './order.ts'

/** A payment of either direction, as the ledger has it. */
export const PaymentRecord = RecordedPayment.omit({ settlement: true })
  .extend({
    direction: z.enum(['in', 'out']).meta({ description: '`in`: for an agent of this node; `out`: by this node' }),
    agent_id: z.string(),
    agent_name: z.string().optional().meta({ description: 'while the agent is known' }),
    peer_id: z.string().meta({ description: 'the buyer of one that came in, the seller of one that went out' }),
    state: RecordedPayment.shape.settlement,
    attempts: z.int().optional().meta({ description: 'at settlement, so far' }),
    next_attempt_at: z.string().optional(),
    error: z.string().optional(),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'PaymentEvent', description: 'A payment, received or made.' })
export type PaymentRecord = z.infer<typeof PaymentRecord>
