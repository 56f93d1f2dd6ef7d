import type { ChannelConfig, ChannelPayment, SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'

/** Moves the money of payment channels on the chain. Each resolves when the chain shows it. */
export interface ChannelFunds {
  /** @throws ChannelRefused */
  deposit(asked: DepositCall, signal: AbortSignal): Promise<{ txHash: Hex | undefined }>
  /** Gives back what no call and no charge needs. @throws ChannelRefused */
  refund(asked: { peerId: string; channelId: Hex }, signal: AbortSignal): Promise<{ txHash: Hex | undefined }>
}

type DepositCall = {
  peerId: string
  channelId: Hex
  /** Undefined: the buyer says that this seller knows it. */
  config: ChannelConfig | undefined
  voucher: SignedVoucher
  deposit: NonNullable<ChannelPayment['deposit']>
}
