import * as z from 'zod'
import { useFields } from './pricing.ts'

// An answer of the node: it describes formats without enforcing them, since money is already spent.

export const ExecutionPayment = z
  .object({
    payment_id: z.string().meta({
      description:
        'EIP-712 digest of the authorization; of a call on a channel the hash of channel and call. 0x-prefixed',
    }),
    network: z.string().meta({ description: 'CAIP-2 id' }),
    asset: z.string().meta({ description: 'address of the USDC contract' }),
    amount: z.string().meta({ description: 'USDC as decimal text' }),
    amount_atomic: z.string().meta({ description: 'the same amount in atomic units' }),
    payer: z.string(),
    pay_to: z.string(),
    tx_hash: z.string().meta({
      description: 'settlement transaction; empty while settlement is pending, and for a call on a channel',
    }),
    channel_id: z.string().optional().meta({
      description: 'the payment channel that pays. Its claim covers the call, which has no transaction of its own',
    }),
    ...useFields,
    settlement: z.enum(['settled', 'claimed', 'pending']).meta({
      description:
        '`settled`: the chain shows the transfer, or a payment channel covers it; `claimed`: only the seller says that it settled; `pending`: not settled yet',
    }),
    settlement_note: z.string().optional().meta({ description: 'why the node cannot ask the chain' }),
  })
  .meta({ id: 'ExecutionPayment', description: 'The payment for an execution.' })
export type ExecutionPayment = z.infer<typeof ExecutionPayment>
