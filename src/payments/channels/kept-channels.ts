import type { ChannelState } from '../../chain/batch-settlement.ts'
import type { Moment, UnixMs } from '../../lib/clock.ts'
import type { ChannelPayment } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChannelRefund, RefundAsk, SellerChannel } from './seller-channel.ts'

/** A channel to this seller as it is on disk, of any process. Its charges are never more than was delivered. */
export type KeptChannel = {
  channel: SellerChannel
  /** True: this process has it. */
  isOwn: boolean
  /** Since when something is charged and not claimed. */
  owedSince: UnixMs | undefined
  usedAt: UnixMs
}

/** What proves who signs the vouchers of a channel. */
export type KnownBy = Pick<ChannelPayment, 'config' | 'voucher' | 'counted'>

/**
 * The channels of this seller, as those who settle them see them. Only the process that has a channel changes its record,
 * also what it says of the chain: two writers would overwrite each other's charges.
 */
export interface KeptChannels {
  /** The channels of all processes. */
  list(): Promise<KeptChannel[]>
  /** Takes in a reading of the chain that began at `at`. Does nothing for a channel that another living process has. */
  seen(id: Hex, onChain: ChannelState, at: Moment): Promise<void>
  /**
   * Takes in a channel that this seller does not know yet, because no call was made on it.
   *
   * @throws ChannelRefused, ChannelsBusy, ChainError, or the reason of `signal`
   */
  know(asked: { peerId: string; payment: KnownBy }, signal: AbortSignal): Promise<void>
  /**
   * Agrees to give back what is free (`signRefund`). The refund is on disk when it resolves. Undefined: too little is
   * free, or another process has the channel.
   */
  agreeToRefund(id: Hex, ask: RefundAsk): Promise<{ channel: SellerChannel; refund: ChannelRefund } | undefined>
}
