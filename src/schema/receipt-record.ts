import * as z from 'zod'
import { AgentRef } from './api.ts'
import { ChannelConfig } from './channel.ts'
import { cursorOf, Limit } from './page.ts'
import { useFields } from './pricing.ts'
import { Address, Hash32 } from './primitives.ts'
import { SignedReceipt } from './receipt.ts'

export const directions = ['in', 'out'] as const
export const Direction = z.enum(directions).meta({ description: '`in`: this node was paid; `out`: this node paid' })
export type Direction = z.infer<typeof Direction>

/** The authorization of a receipt: the payment id is the hash of these fields. */
export const ReceiptAuthorization = z.object({
  from: Address,
  to: Address,
  value: z.string().regex(/^(0|[1-9][0-9]{0,77})$/),
  validAfter: z.string().regex(/^(0|[1-9][0-9]{0,77})$/),
  validBefore: z.string().regex(/^(0|[1-9][0-9]{0,77})$/),
  nonce: Hash32,
})

/** The call on a channel that a receipt is about: the payment id is the hash of channel and call. */
export const ReceiptChannel = z.object({
  id: Hash32,
  correlation_id: z.string().max(100),
  config: ChannelConfig.optional().meta({ description: 'terms of the channel. Their hash is its id' }),
})

/** A stored receipt, with everything needed to check it offline. */
export const ReceiptRecord = z
  .object({
    payment_id: z.string().meta({
      description:
        'EIP-712 digest of the authorization; of a call on a channel the hash of channel and call. 0x-prefixed',
    }),
    direction: Direction,
    agent_id: z.string(),
    agent_name: z.string().optional(),
    peer_id: z.string().meta({ description: 'peer id of the other side' }),
    amount: z.string().meta({ description: 'USDC as decimal text' }),
    amount_atomic: z.string(),
    network: z.string(),
    asset: z.string(),
    payer: z.string(),
    pay_to: z.string(),
    tx_hash: z.string().meta({ description: 'settlement as this node knows it; not part of the signed receipt' }),
    status: z.enum(['valid', 'missing', 'wrong']).meta({
      description:
        '`missing`: the seller sent no receipt; `wrong`: the receipt does not match, and `note` says how. The result was accepted in both cases',
    }),
    note: z.string().optional(),
    issued_at: z.string().optional().meta({ description: 'time by the clock of the seller' }),
    receipt: SignedReceipt.optional(),
    authorization: ReceiptAuthorization.optional().meta({ description: 'absent for a call on a channel' }),
    channel: ReceiptChannel.optional().meta({ description: 'only of a call on a channel' }),
    ...useFields,
    created_at: z.string().meta({ description: 'when this node signed or accepted the payment' }),
  })
  .meta({ id: 'Receipt', description: 'A receipt of a paid call.' })
export type ReceiptRecord = z.infer<typeof ReceiptRecord>
export const ReceiptRecords = z.array(ReceiptRecord)

const selection = { direction: Direction.optional(), agent_id: AgentRef.optional() }
/** The position in both ledgers where the next page starts. */
export const ReceiptCursor = cursorOf(/^[0-9]{1,15}\.[0-9]{1,15}$/)

export const ReceiptQuery = z.strictObject({ ...selection, limit: Limit, cursor: ReceiptCursor.optional() })
export type ReceiptQuery = z.output<typeof ReceiptQuery>

export const ReceiptExportQuery = z.strictObject({
  format: z.enum(['csv', 'json']).default('json'),
  ...selection,
  cursor: ReceiptCursor.optional(),
})

export const ReceiptParams = z.strictObject({
  id: z.string().min(1).max(100).meta({ description: 'the payment id' }),
})
