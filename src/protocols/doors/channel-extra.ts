import type { SellerChannel } from '../../payments/channels/seller-channel.ts'

/** What x402's scheme `batch-settlement` says of a channel beside a payment or a refusal. */
export type ChannelExtra = {
  chargedAmount?: string
  channelState?: object
  voucherState?: { signedMaxClaimable: string; signature: string }
}

/** What is told of a channel, as it is in memory or on disk. */
type ToldChannel = Pick<SellerChannel, 'id' | 'onChain' | 'best' | 'charged'>

/** @param total what was charged when the call ended */
export function channelExtra(channel: ToldChannel, total = channel.charged): ChannelExtra {
  const { id, onChain } = channel
  const { balance, totalClaimed, withdrawal, refundNonce } = onChain
  return {
    channelState: {
      channelId: id,
      balance: balance.toString(),
      totalClaimed: totalClaimed.toString(),
      withdrawRequestedAt: withdrawal?.initiatedAt ?? 0,
      refundNonce: refundNonce.toString(),
      chargedCumulativeAmount: total.toString(),
    },
  }
}

/**
 * What a client needs to sign the right voucher. Shows the best voucher only if it cannot buy anything, because anybody may ask
 * with a claimed voucher, which the chain shows.
 */
export function correctionOf(channel: ToldChannel): ChannelExtra {
  const { best, charged } = channel
  const isSpent = best !== undefined && best.maxClaimableAmount <= charged
  const { maxClaimableAmount, signature } = best ?? { maxClaimableAmount: 0n, signature: '' }
  const voucherState = { signedMaxClaimable: maxClaimableAmount.toString(), signature }
  return { ...channelExtra(channel), ...(isSpent && { voucherState }) }
}
