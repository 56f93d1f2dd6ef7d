import * as z from 'zod'
import { ListedPricing, Units } from './pricing.ts'
import { Address, Hash32, Signature65, UnixSecondsText } from './primitives.ts'

const UINT128_MAX = 2n ** 128n - 1n
const NOBODY = /^0x0{40}$/

/** Bounds of the contract on the delay of a withdrawal: 15 minutes and 30 days. */
const WITHDRAW_DELAY_SECONDS_MIN = 900
const WITHDRAW_DELAY_SECONDS_MAX = 2_592_000

/** The scheme of x402 by which a call pays from a channel. */
export const CHANNEL_SCHEME = 'batch-settlement'

/** What a caller wants of payment channels for a call. */
export const ChannelWish = z.enum(['auto', 'always', 'never']).meta({
  description:
    '`auto`: by the rule of the node; `always`: opens a channel to the seller if there is none. A call that no channel can ' +
    'pay yet is paid for by itself; `never`: the call is paid for by itself. Default: `auto`',
})
export type ChannelWish = z.infer<typeof ChannelWish>

/** An amount that a channel can hold: 128 bits. The contract refuses more without a reason. */
export const ChannelAmount = z
  .codec(z.string().regex(/^(0|[1-9][0-9]{0,38})$/), z.bigint().min(0n).max(UINT128_MAX), {
    decode: (text) => BigInt(text),
    encode: (amount) => amount.toString(),
  })
  .meta({ description: 'atomic units as a decimal string, at most 2^128 − 1' })

const Party = Address.refine((address) => !NOBODY.test(address), 'is the zero address, which the contract refuses')

/** The terms of a payment channel. They never change, because their hash is the channel's id. */
export const ChannelConfig = z
  .object({
    payer: Party,
    /** The key that signs vouchers. Zero: the payer signs them. */
    payerAuthorizer: Address,
    receiver: Party,
    /** The key that signs claims and refunds for the receiver. */
    receiverAuthorizer: Party,
    token: Party,
    /** Seconds that the receiver has to claim after the payer starts a withdrawal. */
    withdrawDelay: z.int().min(WITHDRAW_DELAY_SECONDS_MIN).max(WITHDRAW_DELAY_SECONDS_MAX),
    /** Tells channels with otherwise the same terms apart. */
    salt: Hash32,
  })
  .meta({ id: 'ChannelConfig', description: 'The terms of a payment channel.' })
export type ChannelConfig = z.infer<typeof ChannelConfig>

/** The payer's word that the receiver may claim up to this much in all. A later voucher replaces it. */
export const Voucher = z.object({ channelId: Hash32, maxClaimableAmount: ChannelAmount })
export type Voucher = z.infer<typeof Voucher>

export const SignedVoucher = Voucher.extend({ signature: Signature65 })
export type SignedVoucher = z.infer<typeof SignedVoucher>

/** The sum of charges that one side knows, and the number of the last one. */
const ChannelCount = z.object({ total: ChannelAmount, seq: z.int().min(0) })

/** What a call has cost. `total` and `seq` count it in. */
export const Charge = z
  .object({
    amount: ChannelAmount,
    total: ChannelAmount,
    seq: z.int().min(1),
    /** Of a metered agent. */
    units: Units.optional(),
    /** The output ends where it was paid for. */
    cut: z.literal(true).optional(),
  })
  .meta({ id: 'Charge', description: 'What a call on a channel has cost. `total` and `seq` count it in.' })
export type Charge = z.infer<typeof Charge>

/** A deposit by EIP-3009 that anyone can send. `salt` goes into the nonce beside the channel's id. */
export const ChannelDeposit = z
  .object({
    amount: ChannelAmount.refine((amount) => amount > 0n, 'is 0, which the contract refuses'),
    authorization: z.object({
      validAfter: UnixSecondsText,
      validBefore: UnixSecondsText,
      salt: Hash32,
      signature: Signature65,
    }),
  })
  .meta({ id: 'ChannelDeposit', description: 'A deposit by EIP-3009 that anyone can send.' })

/** How a request pays by a channel. It stands beside the payment of the scheme `exact`, so old sellers answer 2001. */
export const ChannelPayment = z
  .object({
    /** May be left out where the seller has answered for this channel before. */
    config: ChannelConfig.optional(),
    voucher: SignedVoucher,
    /** What the buyer has counted: it heals a seller that has lost records. */
    counted: ChannelCount,
    /** The most that the call may cost. Only with the methods `execute` and `result`. */
    asked: ChannelAmount.optional(),
    /** True: the buyer raises `asked` by `x402.voucher` while output streams. Only if the seller's listing says that it can. */
    grows: z.literal(true).optional().catch(undefined),
    /** The prices that the buyer has read, of a metered agent. The seller refuses a call under others. */
    pricing: ListedPricing.optional(),
    /** Only with the method `deposit`. */
    deposit: ChannelDeposit.optional(),
  })
  .meta({ id: 'ChannelPayment', description: 'How a request pays by a channel.' })
export type ChannelPayment = z.infer<typeof ChannelPayment>

/**
 * Why a seller does not take a call on a channel:
 * - `unknown`: it has no record. The buyer sends `config`.
 * - `voucher`: the ceiling is too low. The buyer signs a higher one, or takes over the seller's count.
 * - `balance`: the deposits are used up, or are not believed yet.
 * - `withdrawal`: the payer takes out what the call would cost.
 * - `elsewhere`: another process of the seller has the channel.
 * - `refused`: the seller does not work on this channel. `message` says why.
 */
const ChannelRefusal = z.enum(['unknown', 'voucher', 'balance', 'withdrawal', 'elsewhere', 'refused'])

/** What a seller says of a channel whose call it does not take, beside the error. */
export const ChannelStatement = z
  .object({
    reason: ChannelRefusal.catch('refused'),
    /** The seller's own count. */
    counted: ChannelCount.optional(),
    /** The best voucher that the seller has: the buyer's own word. */
    voucher: SignedVoucher.optional(),
  })
  .meta({
    id: 'ChannelStatement',
    description: 'Why a seller does not take a call on a channel, and what it knows of it.',
  })
export type ChannelStatement = z.infer<typeof ChannelStatement>

/** What a seller wants of channels to it, in its listing. */
export const ChannelTerms = z
  .object({
    /** The key that signs claims and refunds for the seller: its own, never a facilitator's. */
    receiver_authorizer: Address,
    /** Seconds that the seller has to claim after a withdrawal has begun. */
    withdraw_delay: z.int().min(WITHDRAW_DELAY_SECONDS_MIN).max(WITHDRAW_DELAY_SECONDS_MAX),
    /** The smallest deposit that the seller sends to the chain. */
    min_deposit: ChannelAmount,
    /** True: it takes `x402.voucher` for calls of metered agents while their output streams. */
    stream_vouchers: z.literal(true).optional().catch(undefined),
  })
  .meta({ id: 'ChannelTerms', description: 'What a seller wants of payment channels to it.' })
export type ChannelTerms = z.infer<typeof ChannelTerms>
