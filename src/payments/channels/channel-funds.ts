import type { ChannelState } from '../../chain/batch-settlement.ts'
import type { ChannelConfig, ChannelPayment, SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { KnownBy } from './kept-channels.ts'

/** Moves the money of payment channels on the chain. Each resolves when the chain shows it. */
export interface ChannelFunds {
  /** @throws ChannelRefused */
  deposit(asked: DepositCall, signal: AbortSignal): Promise<{ txHash: Hex | undefined }>
  /** Gives back what no call and no charge needs. @throws ChannelRefused */
  refund(asked: RefundCall, signal: AbortSignal): Promise<Refunded>
}

/** What moved, and the channel on the chain after it. */
type Refunded = { txHash: Hex | undefined; amount: bigint; onChain: ChannelState }

/** `payment`: by which a seller knows a channel on which no call was made. */
type RefundCall = { peerId: string; channelId: Hex; payment: KnownBy }

type DepositCall = {
  peerId: string
  channelId: Hex
  /** Undefined: the buyer says that this seller knows it. */
  config: ChannelConfig | undefined
  voucher: SignedVoucher
  deposit: NonNullable<ChannelPayment['deposit']>
  /** Called when the chain would take the deposit, or has it: it is not made up. */
  onProved?: (() => void) | undefined
}
