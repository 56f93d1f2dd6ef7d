import { BoundedMap } from '../lib/bounded-map.ts'
import { type Clock, momentOf, monotonicOf } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { ChannelDeposits } from '../payments/channels/channel-deposits.ts'
import type { ChannelFunds } from '../payments/channels/channel-funds.ts'
import type { ChannelRefunds } from '../payments/channels/channel-refunds.ts'
import { ChannelRefused, elsewhere } from '../payments/channels/channel-refused.ts'
import type { ChannelRelay } from '../payments/channels/channel-relay.ts'
import type { KeptChannels } from '../payments/channels/kept-channels.ts'
import { openRefund } from '../payments/channels/seller-channel.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SellerChannelStore, StoredSellerChannel } from '../store/seller-channels.ts'

/** A deposit and a refund cost this seller about this much, in USDC atomic units. */
const COST = 2_000n
/**
 * Refunds in an hour of channels that have paid less than `COST` since their last refund. Beyond it the buyer waits, or takes
 * its money out by itself.
 */
const UNPAID_REFUNDS_MAX = 20
/** Channels whose last refund is remembered. */
const REFUNDED_MAX = 10_000
const UNPAID_MS = 60 * 60_000

type ChannelFundsDeps = {
  clock: Clock
  logger: Logger
  store: Pick<SellerChannelStore, 'take'>
  kept: Pick<KeptChannels, 'seen' | 'know'>
  relay: Pick<ChannelRelay, 'trouble'>
  deposits: Pick<ChannelDeposits, 'deposit'>
  refunds: Pick<ChannelRefunds, 'refund'>
}

/** Answers peers that bring a deposit or ask for a refund. */
export function createChannelFunds(deps: ChannelFundsDeps): ChannelFunds {
  const { clock, logger, store, kept, relay, deposits, refunds } = deps
  const unknown = () => new ChannelRefused('unknown', 'this seller does not know this channel: send its terms')
  const unpaid: number[] = []
  /** What channels had paid at their last refund. */
  const refunded = new BoundedMap<Hex, bigint>(REFUNDED_MAX)
  /** @throws ChannelRefused */
  function checkPaid(channel: StoredSellerChannel): void {
    const { id, charged } = channel
    // A buyer may ask again for a refund that is under way.
    if (openRefund(channel) !== undefined || charged - (refunded.get(id) ?? 0n) >= COST) return
    const now = monotonicOf(clock)
    if (unpaid.length >= UNPAID_REFUNDS_MAX && now - unpaid[0]! < UNPAID_MS) {
      throw new ChannelRefused(
        'refused',
        'this seller gives back too many channels that have paid less than this costs: ask it later',
      )
    }
    unpaid.push(now)
    if (unpaid.length > UNPAID_REFUNDS_MAX) unpaid.shift()
  }

  return {
    async deposit({ channelId, config: sent, voucher, deposit }, signal) {
      const config = sent ?? (await store.take(channelId))?.channel.config
      if (config === undefined) throw unknown()
      const trouble = await relay.trouble(signal)
      if (trouble !== undefined) {
        logger.warn({ channel_id: channelId, reason: trouble }, 'the deposit of a buyer cannot be sent to the chain')
        throw new ChannelRefused('refused', 'this seller cannot send deposits now: send it to the chain yourself')
      }
      const outcome = await deposits.deposit({ config, voucher, deposit })
      if (outcome.kind === 'refused') throw new ChannelRefused('refused', outcome.reason)
      if (outcome.kind === 'pending') throw new ChannelRefused('balance', `not on the chain yet: ${outcome.reason}`)
      await kept.seen(channelId, outcome.onChain, momentOf(clock))
      return { txHash: outcome.txHash }
    },

    async refund({ peerId, channelId, payment }, signal) {
      const known = await store.take(channelId)
      if (known === undefined && payment.config === undefined) throw unknown()
      // The buyer has made a deposit, and no call.
      if (known === undefined) await kept.know({ peerId, payment }, signal)
      const taken = known ?? (await store.take(channelId))
      if (taken === undefined) throw unknown()
      if (!taken.isOwn) throw elsewhere()
      // What is free goes to the payer, but a stranger must not close the channel that somebody works with.
      if (taken.channel.peerId !== peerId) {
        throw new ChannelRefused('refused', 'another peer uses this channel: a call of this peer takes it over')
      }
      checkPaid(taken.channel)
      const outcome = await refunds.refund(channelId, undefined, signal)
      if (outcome.kind === 'refunded') {
        refunded.set(channelId, taken.channel.charged)
        return outcome
      }
      throw new ChannelRefused('refused', outcome.reason)
    },
  }
}
