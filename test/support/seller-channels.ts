import type { ChannelConfig } from '../../src/schema/channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import type { ChannelCall } from '../../src/store/channel-calls.ts'
import type { StoredSellerChannel } from '../../src/store/seller-channels.ts'
import { claim, exchangeOf, payTo, randomHex, usdc } from './payments.ts'

export const channelsSince: number = Date.UTC(2026, 0, 1)
const account = (digit: string): Hex => `0x${digit.repeat(40)}`

/** A channel with a deposit of 1 USDC at a seller that has charged nothing. */
export function channelOf(changes: Partial<StoredSellerChannel> = {}): StoredSellerChannel {
  const config: ChannelConfig = {
    ...{ payer: account('1'), payerAuthorizer: account('2'), receiver: payTo, receiverAuthorizer: account('3') },
    ...{ token: usdc.address, withdrawDelay: 86_400, salt: randomHex() },
  }
  return {
    ...{ id: randomHex(), network: usdc.network, config, peerId: 'buyer', seenAt: channelsSince, best: undefined },
    onChain: { balance: 1_000_000n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n },
    ...{ charged: 0n, seq: 0, owedSince: undefined, createdAt: channelsSince, usedAt: channelsSince },
    ...changes,
  }
}

/** A call that has ended: sold for 0.001 USDC under this number, or failed. */
export function callOf(seq: number | undefined): ChannelCall {
  const paid = claim(channelsSince)
  const failed = { output: undefined, error: 'no' }
  return {
    ...{
      id: paid.id,
      peerId: 'buyer',
      charge: seq === undefined ? undefined : { amount: 1_000n, total: 1_000n * BigInt(seq), seq },
    },
    exchange: exchangeOf(paid, channelsSince, seq === undefined ? failed : {}),
  }
}
