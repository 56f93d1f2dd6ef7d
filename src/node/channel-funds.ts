import type { Clock } from '../lib/clock.ts'
import { FairPlaces } from '../lib/fair-places.ts'
import { Hold } from '../lib/hold.ts'
import type { Logger } from '../lib/logger.ts'
import type { ChannelDeposits } from '../payments/channels/channel-deposits.ts'
import type { ChannelFunds } from '../payments/channels/channel-funds.ts'
import type { ChannelRefunds } from '../payments/channels/channel-refunds.ts'
import { ChannelRefused, elsewhere } from '../payments/channels/channel-refused.ts'
import type { ChannelRelay } from '../payments/channels/channel-relay.ts'
import type { KeptChannels } from '../payments/channels/kept-channels.ts'
import { openRefund } from '../payments/channels/seller-channel.ts'
import { UnpaidSteps } from '../payments/channels/unpaid-steps.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SellerChannelStore, StoredSellerChannel } from '../store/seller-channels.ts'

/**
 * Refunds of channels that have paid less than a deposit and a refund cost since their last one. Beyond it the buyer waits, or takes
 * its money out by itself.
 */
const UNPAID_REFUNDS = { cost: 2_000n, ofPayer: 10, ofAll: 60 }
/** Deposits that are checked at once. Fewer than are under way, so that made-up ones leave room for those that land. */
const CHECKS_MAX = 16

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
  const unpaid = new UnpaidSteps(UNPAID_REFUNDS, { clock })
  const checks = new FairPlaces(CHECKS_MAX)
  /** Counts a refund, unless it comes to nothing. @throws ChannelRefused */
  function counted(channel: StoredSellerChannel): Hold {
    const { id, config, charged } = channel
    // A buyer may ask again for a refund that is under way.
    if (openRefund(channel) !== undefined) return new Hold(undefined)
    const hold = unpaid.take({ id, payer: config.payer, charged })
    if (hold !== undefined) return hold
    const reason = 'this seller gives back too many channels that have paid less than this costs: ask it later'
    throw new ChannelRefused('refused', reason)
  }

  async function isSigned(id: Hex): Promise<boolean> {
    const taken = await store.take(id)
    return taken !== undefined && openRefund(taken.channel) !== undefined
  }

  return {
    async deposit({ peerId, channelId, config: sent, voucher, deposit, onProved }, signal) {
      const config = sent ?? (await store.take(channelId))?.channel.config
      if (config === undefined) throw unknown()
      const trouble = await relay.trouble(signal)
      if (trouble !== undefined) {
        logger.warn({ channel_id: channelId, reason: trouble }, 'the deposit of a buyer cannot be sent to the chain')
        throw new ChannelRefused('refused', 'this seller cannot send deposits now: send it to the chain yourself')
      }
      // A made-up deposit costs its peer nothing, and takes questions to the RPC (T31).
      using checking = await checks.take(peerId)
      signal.throwIfAborted()
      const proved = () => {
        checking[Symbol.dispose]()
        onProved?.()
      }
      const outcome = await deposits.deposit({ config, voucher, deposit, onProved: proved })
      if (outcome.kind === 'refused') throw new ChannelRefused('refused', outcome.reason)
      if (outcome.kind === 'pending') throw new ChannelRefused('balance', `not on the chain yet: ${outcome.reason}`)
      await kept.seen(channelId, outcome.onChain, outcome.at)
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
      using count = counted(taken.channel)
      const outcome = await refunds.refund(channelId, undefined, signal)
      if (outcome.kind === 'refunded' || (await isSigned(channelId))) count.keep()
      if (outcome.kind === 'refunded') return outcome
      throw new ChannelRefused('refused', outcome.reason)
    },
  }
}
