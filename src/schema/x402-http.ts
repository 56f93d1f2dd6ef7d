import * as z from 'zod'
import { ChannelAmount, ChannelConfig, SignedVoucher } from './channel.ts'
import { SignedAuthorization } from './payment.ts'
import { Hash32, type Hex, type Network, networks, Signature65, UnixSecondsText } from './primitives.ts'

/** The names of x402 v1 for the networks. */
const v1Names: Readonly<Record<Network, string>> = { 'eip155:84532': 'base-sepolia', 'eip155:8453': 'base' }

export function v1NetworkName(network: string): string {
  return v1Names[network as Network] ?? network
}

/** The network that x402 v1 calls so. Any other name stays as it is, and is then no network of ours. */
export function networkOfV1(name: string): string {
  return networks.find((network) => v1Names[network] === name) ?? name
}

const kind = { scheme: z.string().max(64), network: z.string().max(64) }

/** The kind of a payment, read before the rest: payments of other schemes have other contents. */
export const PaymentKind = z.union([
  z.object({ x402Version: z.literal(2), accepted: z.object(kind) }),
  z.object({ x402Version: z.literal(1), ...kind }),
])

/** A payment of scheme `exact`, of both versions. Other fields, such as echoed extensions, are not read. */
export const ExactPayment = z.object({
  payload: SignedAuthorization,
  resource: z
    .object({ url: z.string().max(2048).optional() })
    .nullish()
    .transform((resource) => resource ?? undefined),
})

const channelWord = { channelConfig: ChannelConfig, voucher: SignedVoucher }
const erc3009Authorization = z.object({
  validAfter: UnixSecondsText,
  validBefore: UnixSecondsText,
  salt: Hash32,
  signature: Signature65,
})

/** A payment of scheme `batch-settlement`: a call on a payment channel, with or without a deposit, or a refund. */
export const ChannelPayload = z.discriminatedUnion('type', [
  z.object({ type: z.literal('voucher'), ...channelWord }),
  z.object({
    type: z.literal('deposit'),
    ...channelWord,
    deposit: z.object({ amount: ChannelAmount, authorization: z.object({ erc3009Authorization }) }),
  }),
  z.object({ type: z.literal('refund'), ...channelWord, amount: ChannelAmount.optional() }),
])
export type ChannelPayload = z.infer<typeof ChannelPayload>

/** An offer of x402's offer-receipt extension: what a seller asks, signed by the account that is paid. */
export type X402Offer = {
  version: 1
  resourceUrl: string
  scheme: string
  network: string
  asset: string
  payTo: string
  amount: string
  /** Unix seconds. */
  validUntil: number
}
export type SignedX402Offer = { format: 'eip712'; payload: X402Offer; signature: Hex }
