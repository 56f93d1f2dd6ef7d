import * as z from 'zod'
import { Address, Hash32, Signature65 } from './primitives.ts'

const UINT128_MAX = 2n ** 128n - 1n
const NOBODY = /^0x0{40}$/

/** Bounds of the contract on the delay of a withdrawal: 15 minutes and 30 days. */
const WITHDRAW_DELAY_SECONDS_MIN = 900
const WITHDRAW_DELAY_SECONDS_MAX = 2_592_000

/** An amount that a channel can hold: 128 bits. The contract refuses more without a reason. @internal Exported for its test. */
export const ChannelAmount = z
  .codec(z.string().regex(/^(0|[1-9][0-9]{0,38})$/), z.bigint().min(0n).max(UINT128_MAX), {
    decode: (text) => BigInt(text),
    encode: (amount) => amount.toString(),
  })
  .meta({ description: 'atomic units as a decimal string, at most 2^128 − 1' })

const Party = Address.refine((address) => !NOBODY.test(address), 'is the zero address, which the contract refuses')

/** The terms of a payment channel. They never change, because their hash is the channel's id. */
export const ChannelConfig = z.object({
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
export type ChannelConfig = z.infer<typeof ChannelConfig>

/** The payer's word that the receiver may claim up to this much in all. A later voucher replaces it. */
export const Voucher = z.object({ channelId: Hash32, maxClaimableAmount: ChannelAmount })
export type Voucher = z.infer<typeof Voucher>

export const SignedVoucher = Voucher.extend({ signature: Signature65 })
export type SignedVoucher = z.infer<typeof SignedVoucher>
