import * as z from 'zod'
import { ChannelAmount, ChannelStatement, Charge, SignedVoucher } from './channel.ts'
import { PaymentEnvelope, PaymentRequirements } from './payment.ts'
import { Hash32, type Hex } from './primitives.ts'

export const X402_PROTOCOL = '/x402/libp2p/1.0.0'

const header = { version: z.literal('1.0'), correlation_id: z.uuidv4() }
const did = z.string().max(256)

// Accepts any value: a value other than `true` has no meaning and does not invalidate the request.
const Stream = z
  .unknown()
  .optional()
  .meta({ description: 'an extension: `true` asks for `x402.output` frames before the response' })
const Hops = z.unknown().optional().meta({
  description: 'an extension: number of agents in the chain of purchases, including this call',
})
const AllowSettleFirst = z.unknown().optional().meta({
  description:
    'an extension: with `false`, the seller refuses the payment instead of settling it before the agent runs',
})
const AwaitSettlement = z.unknown().optional().meta({
  description:
    'an extension: with `false`, the response leaves when result and debt are on disk, before the payment has settled',
})

const ReceiptWish = z.unknown().optional().meta({
  description: 'an extension: with `merkle`, the receipt may share its signature with others: see Receipts',
})

const SettlementsOf = z.unknown().optional().meta({
  description: 'an extension, with `result`: ids of other payments of this peer. The response names their transactions',
})

const MayRefer = z.unknown().optional().meta({
  description:
    'an extension, without a payment: `true` lets the seller answer 3001 if the call would wait here and another of its processes is free',
})

const MayMove = z.unknown().optional().meta({
  description:
    'an extension: with `true`, the seller may answer 3001 if the machine of the run is lost, so that the same payment is sent to another of its processes',
})

const asked = {
  body: z.base64(),
  caller_did: did,
  stream: Stream,
  allow_settle_first: AllowSettleFirst,
  await_settlement: AwaitSettlement,
  hops: Hops,
  receipt: ReceiptWish,
}

export const X402Request = z.object({
  ...header,
  resource: z.string().min(1).max(256).meta({ description: 'id of the agent' }),
  /**
   * `result` asks again for the result of a payment (D32), `receipt` for its receipt as x402 has it. `deposit` has the
   * seller send a deposit to the chain, `refund` has it give back what a channel does not need. Both run no agent.
   */
  method: z.enum(['execute', 'result', 'receipt', 'deposit', 'refund']),
  payment: PaymentEnvelope.nullish().transform((payment) => payment ?? null),
  settlements_of: SettlementsOf,
  may_refer: MayRefer,
  ...asked,
})
export const X402PaymentRequired = z.object({
  ...header,
  challenge_nonce: Hash32,
  challenge_expires_at: z.int().meta({ description: 'Unix seconds' }),
  payment_requirements: PaymentRequirements,
  message: z.string().max(4096),
  seller_did: did,
})
export const X402PaidRequest = z.object({ ...header, payment: PaymentEnvelope, may_move: MayMove, ...asked })
/** An extension: what the agent outputs while it works. Only the response counts. */
export const X402Output = z.object({
  ...header,
  text: z.string().max(64 * 1024),
  charged: ChannelAmount.optional().catch(undefined).meta({
    description: 'an extension: what the call costs with this text. Above the ceiling: what the next piece needs',
  }),
})
/** An extension: raises the ceiling of a call on a channel while its output streams. It has no answer. */
export const X402Voucher = z.object({
  ...header,
  voucher: SignedVoucher,
  asked: ChannelAmount.meta({ description: 'what the call may cost now' }),
})
export const X402Response = z.object({
  ...header,
  payment_id: Hash32,
  tx_hash: z
    .union([Hash32, z.literal('')])
    .meta({ description: '32 bytes as 0x-prefixed hex; empty while settlement is pending' }),
  body: z.base64(),
  seller_did: did,
  seller_token_id: z.string().max(80).meta({ description: 'number of the ERC-8004 token; empty without a token' }),
  // Parsed separately: an unreadable receipt must not lose a result.
  receipt: z.unknown().optional().meta({ description: 'signed receipt for the result: see Receipts' }),
  charge: Charge.optional().catch(undefined).meta({
    description: 'an extension: what a call on a channel has cost',
  }),
  settlements: z.unknown().optional().meta({
    description:
      'an extension: `payment_id` and `tx_hash` of those payments of `settlements_of` that have a transaction',
  }),
})
export const X402Error = z.object({
  ...header,
  error_code: z.int(),
  error_name: z.string().max(64),
  message: z.string().max(4096),
  retryable: z.boolean(),
  refund_tx: z.unknown().optional().meta({
    description: 'an extension: the transaction in which the seller paid the settled amount back',
  }),
  channel: ChannelStatement.optional().catch(undefined).meta({
    description: 'an extension: why the seller does not take a call on a channel',
  }),
})

/** Payments that one request may ask about beside its own. */
export const SETTLEMENTS_MAX = 128
const PaymentIds = z.array(Hash32).max(SETTLEMENTS_MAX)
const Settlements = z.array(z.object({ payment_id: Hash32, tx_hash: Hash32 })).max(SETTLEMENTS_MAX)
export type Settlement = z.infer<typeof Settlements>[number]

/** The payments that a request asks about; undefined if it does not ask as the protocol says. */
export function readPaymentIds(said: unknown): readonly Hex[] | undefined {
  return PaymentIds.safeParse(said).data as Hex[] | undefined
}

/** The transactions that a seller names; undefined if it does not know this extension. */
export function readSettlements(said: unknown): readonly Settlement[] | undefined {
  return Settlements.safeParse(said).data
}

/** How many agents have bought from one another, as a message says; 0 if the value is not a count. */
export function readHops(said: unknown): number {
  return Number.isSafeInteger(said) && (said as number) > 0 ? (said as number) : 0
}

export const x402Messages = {
  'x402.request': X402Request,
  'x402.payment_required': X402PaymentRequired,
  'x402.paid_request': X402PaidRequest,
  'x402.output': X402Output,
  'x402.voucher': X402Voucher,
  'x402.response': X402Response,
  'x402.error': X402Error,
} as const
export type X402MessageType = keyof typeof x402Messages
export type X402Message<T extends X402MessageType> = z.infer<(typeof x402Messages)[T]>

/**
 * The error table of both peer protocols. Code 2006 is not assigned. OVERLOADED is Stoa's own (D36): a limit of the
 * peer or of the node is reached, and nothing was consumed.
 */
export const x402Errors = {
  INVALID_MESSAGE: { code: 1000, retryable: false },
  UNKNOWN_RESOURCE: { code: 1001, retryable: false },
  PAYMENT_REQUIRED: { code: 2000, retryable: true },
  PAYMENT_INVALID: { code: 2001, retryable: false },
  PAYMENT_NONCE_MISMATCH: { code: 2002, retryable: false },
  PAYMENT_NONCE_EXPIRED: { code: 2003, retryable: true },
  PAYMENT_NONCE_USED: { code: 2004, retryable: false },
  PAYMENT_AMOUNT_WRONG: { code: 2005, retryable: false },
  SETTLEMENT_FAILED: { code: 2007, retryable: true },
  EXECUTION_FAILED: { code: 3000, retryable: false },
  OVERLOADED: { code: 3001, retryable: true },
} as const
export type X402ErrorName = keyof typeof x402Errors
