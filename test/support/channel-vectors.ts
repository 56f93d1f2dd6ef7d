import type { ChannelConfig } from '../../src/schema/channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { readVectors } from './read-vectors.ts'

type AccountName = 'payer' | 'session' | 'receiver' | 'authorizer'
type Signed = { channel: string; chainId: number; channelId: Hex; signer: AccountName; digest: Hex; signature: Hex }

/** The contents of test/vectors/channels.json. Amounts are decimal strings. */
export type ChannelVectors = {
  accounts: Record<AccountName, { privateKey: Hex; address: Hex }>
  contracts: { x402BatchSettlement: Hex; ERC3009DepositCollector: Hex; token: Hex }
  typeHashes: Record<'channel' | 'voucher' | 'refund' | 'claimEntry' | 'claimBatch', Hex>
  domainSeparators: Record<string, Hex>
  channels: { name: string; chainId: number; config: ChannelConfig; structHash: Hex; channelId: Hex }[]
  vouchers: (Signed & { maxClaimableAmount: string })[]
  refunds: (Signed & { nonce: string; amount: string })[]
  claimBatches: {
    chainId: number
    channels: string[]
    entries: { channelId: Hex; maxClaimableAmount: string; totalClaimed: string }[]
    digest: Hex
    signature: Hex
  }[]
  emptyClaimBatch: { chainId: number; digest: Hex }[]
  deposits: (Signed & {
    amount: string
    validAfter: string
    validBefore: string
    salt: Hex
    nonce: Hex
    collectorData: Hex
    paymentPayload: { accepted: object; payload: object }
  })[]
  selectors: Record<string, Hex>
  topics: Record<string, Hex>
}

export const channelVectors = readVectors<ChannelVectors>('channels')

/** The terms of a channel of the vectors. */
export function vectorConfig(name: string, chainId: number): ChannelConfig {
  return channelVectors.channels.find((channel) => channel.name === name && channel.chainId === chainId)!.config
}
