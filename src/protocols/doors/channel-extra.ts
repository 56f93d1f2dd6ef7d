import type { SellerChannel } from '../../payments/channels/seller-channel.ts'

/** What x402's scheme `batch-settlement` says of a channel beside a payment or a refusal. */
export type ChannelExtra = {
  chargedAmount?: string
  channelState?: object
  voucherState?: { signedMaxClaimable: string; signature: string }
}

/** @param total what was charged when the call ended */
export function channelExtra(channel: SellerChannel, total = channel.charged): ChannelExtra {
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
 * What a client needs to sign the voucher that is right. The best voucher is shown only if it buys nothing any more: whoever
 * asks has a voucher of this channel, and those that were claimed are on the chain for all to see.
 */
export function correctionOf(channel: SellerChannel): ChannelExtra {
  const { best, charged } = channel
  const isSpent = best !== undefined && best.maxClaimableAmount <= charged
  const { maxClaimableAmount, signature } = best ?? { maxClaimableAmount: 0n, signature: '' }
  const voucherState = { signedMaxClaimable: maxClaimableAmount.toString(), signature }
  return { ...channelExtra(channel), ...(isSpent && { voucherState }) }
}
