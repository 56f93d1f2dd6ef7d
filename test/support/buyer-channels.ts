import type { StoredChannel } from '../../src/store/buyer-channels.ts'
import { payTo, randomHex, testWallet, usdc } from './payments.ts'

export const channelsSince: number = Date.UTC(2026, 0, 1, 12)

/** A channel with a deposit of 0.1 USDC that may have been signed for 0.02 USDC, and on which nothing was charged. */
export function payingChannelOf(changes: Partial<StoredChannel> = {}): StoredChannel {
  const config = {
    ...{ payer: testWallet().address, payerAuthorizer: testWallet(2).address },
    ...{ receiver: payTo, receiverAuthorizer: payTo },
    ...{ token: usdc.address, withdrawDelay: 900, salt: randomHex() },
  }
  return {
    ...{ id: randomHex(), config, sellerId: 'seller', network: usdc.network },
    onChain: { balance: 100_000n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n },
    moved: { in: 100_000n, out: 0n },
    ...{ mark: 20_000n, charged: 0n, seq: 0, statedSeq: 0, early: new Map(), stopped: undefined },
    ...{ deposit: undefined, tokenIds: [], createdAt: channelsSince, usedAt: channelsSince },
    ...changes,
  }
}
