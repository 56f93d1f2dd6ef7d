import type { Statement } from '../../payments/channels/buyer-channel.ts'
import { checkVoucher } from '../../payments/voucher.ts'
import type { ChannelConfig, ChannelStatement } from '../../schema/channel.ts'

/** What a seller states of its records, if it comes with a voucher of this node. */
export function provenStatement(
  { counted, voucher }: ChannelStatement,
  config: ChannelConfig,
  chainId: number,
): Statement | undefined {
  if (counted === undefined || voucher === undefined) return undefined
  const verdict = checkVoucher(config, voucher, chainId)
  return verdict.ok ? { charged: counted.total, seq: counted.seq, voucher: verdict.voucher } : undefined
}
