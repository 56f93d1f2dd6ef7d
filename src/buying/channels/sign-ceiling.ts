import { voucherDigest } from '../../payments/channel-digests.ts'
import type { BuyerChannel } from '../../payments/channels/buyer-channel.ts'
import type { ChannelSigner } from '../../payments/channels/channel-keys.ts'
import type { SignedVoucher } from '../../schema/channel.ts'

/** A voucher of a channel up to this ceiling. Its mark is on disk before. @throws Error above the mark */
export function signCeiling(
  { id, mark }: Pick<BuyerChannel, 'id' | 'mark'>,
  ceiling: bigint,
  { signer, chainId }: { signer: ChannelSigner; chainId: number },
): SignedVoucher {
  if (ceiling > mark) throw new Error(`a ceiling of ${ceiling} is above the mark of ${mark}`)
  const voucher = { channelId: id, maxClaimableAmount: ceiling }
  return { ...voucher, signature: signer.sign(voucherDigest(voucher, chainId)) }
}
