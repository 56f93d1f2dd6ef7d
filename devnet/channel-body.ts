import { isAddress } from 'viem'
import * as z from 'zod'
import { ChannelAmount } from '../src/schema/channel.ts'
import { Address, AtomicAmount, Hash32, UnixSecondsText } from '../src/schema/primitives.ts'

const UINT40_MAX = 2 ** 40 - 1

/** viem throws on an address whose checksum (letter case) is wrong. */
export const Checksummed = Address.refine((address) => isAddress(address), 'is not an address: the checksum is wrong')

/** A contract's signature (EIP-1271) may be longer than a key's 65 bytes. */
export const AnySignature = z.string().regex(/^0x([0-9a-fA-F]{2}){1,4096}$/, 'not hex of 1 to 4096 bytes')

/** Any terms that the contract can hash. The facilitator refuses those that no channel may have, and says why. */
const Terms = z.object({
  payer: Checksummed,
  payerAuthorizer: Checksummed,
  receiver: Checksummed,
  receiverAuthorizer: Checksummed,
  token: Checksummed,
  withdrawDelay: z.int().min(0).max(UINT40_MAX),
  salt: Hash32,
})
const Voucher = z.object({ channelId: Hash32, maxClaimableAmount: ChannelAmount, signature: AnySignature })
const Claim = z.object({
  voucher: z.object({ channel: Terms, maxClaimableAmount: ChannelAmount }),
  signature: AnySignature,
  totalClaimed: ChannelAmount,
})
const Authorization = z.object({
  validAfter: UnixSecondsText,
  validBefore: UnixSecondsText,
  salt: Hash32,
  signature: AnySignature,
})

/** What a buyer or a seller of the `batch-settlement` scheme asks a facilitator for. */
const ChannelPayload = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('deposit'),
    channelConfig: Terms,
    voucher: Voucher,
    deposit: z.object({
      amount: ChannelAmount,
      authorization: z.object({ erc3009Authorization: Authorization }),
    }),
  }),
  z.object({ type: z.literal('voucher'), channelConfig: Terms, voucher: Voucher }),
  z.object({
    type: z.literal('refund'),
    channelConfig: Terms,
    voucher: Voucher,
    amount: ChannelAmount.optional(),
    refundNonce: AtomicAmount.optional(),
    claims: z.array(Claim).optional(),
    refundAuthorizerSignature: AnySignature.optional(),
    claimAuthorizerSignature: AnySignature.optional(),
  }),
  z.object({
    type: z.literal('claim'),
    claims: z.array(Claim),
    claimAuthorizerSignature: AnySignature.optional(),
  }),
  z.object({ type: z.literal('settle'), receiver: Checksummed, token: Checksummed }),
])

/** The reference schema demands a time limit above 0, but a seller's own calls (claim, settle, refund) have 0. */
const ChannelRequirements = z.object({
  scheme: z.literal('batch-settlement'),
  network: z.string().regex(/^[^:]+:.+$/, 'is not a CAIP-2 id'),
  amount: AtomicAmount,
  asset: Checksummed,
  payTo: Checksummed,
  maxTimeoutSeconds: z.int().min(0),
  extra: z.record(z.string(), z.unknown()).nullish(),
})

/** The body of a request about a channel. */
export const ChannelBody = z.object({
  paymentPayload: z.object({
    x402Version: z.literal(2),
    accepted: ChannelRequirements,
    payload: ChannelPayload,
  }),
  paymentRequirements: ChannelRequirements,
})
