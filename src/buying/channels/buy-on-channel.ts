import type { Clock } from '../../lib/clock.ts'
import { reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import { countIntoSums } from '../../payments/channels/buyer-channel.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import type { StreamPool } from '../../protocols/streams.ts'
import type { ReceivedResponse } from '../../protocols/x402/answers.ts'
import type { Call } from '../../protocols/x402/client.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { ChargedCall } from '../../store/channel-charges.ts'
import type { Reservation } from '../../store/purchases.ts'
import type { Deadline } from '../deadline.ts'
import { ResultOverdue } from '../deadline.ts'
import type { Watch } from '../flights.ts'
import type { Guard, Terms } from '../guard.ts'
import { ChannelRefused, sendOnChannel } from './channel-call.ts'
import type { ChannelLine } from './channel-line.ts'
import { channelNeeded } from './channel-only.ts'
import { ChannelShort } from './channel-short.ts'
import type { Channels } from './channels.ts'
import { Growth } from './growth.ts'

type ChannelPurchase = {
  line: ChannelLine
  terms: Terms
  call: Call
  guard: Guard
  deadline: Deadline
  watch?: Watch | undefined
  onSigning?: (() => void) | undefined
}

type ChannelPurchaseDeps = {
  clock: Clock
  logger: Logger
  streams: StreamPool
  channels?: Pick<Channels, 'aheadOf'> | undefined
  /** How long to wait for the answer after the time of the call, in ms. */
  afterWindowMs?: number | undefined
}

export type BoughtOnChannel = { response: ReceivedResponse; reservation: Reservation; onChannel: ChargedCall }

/**
 * Buys one run on a payment channel: no challenge, no signature of the wallet, and no transaction.
 *
 * 1. Guard: the call must fit listing, order and budget, as one that is paid for by itself.
 * 2. The channel stores the reservation and covers the call by a voucher.
 * 3. Send, and take the result with its charge.
 *
 * @returns undefined: the channel does not pay this call. Nothing of it was charged, and it may be paid for in another way
 * @throws MarketError, StoreError; ChannelShort: nothing of the call is on disk; PeerError: the call failed, and was not
 * charged; else the outcome is in doubt
 */
export async function buyOnChannel(
  bought: ChannelPurchase,
  deps: ChannelPurchaseDeps,
): Promise<BoughtOnChannel | undefined> {
  const { line, terms, call, guard, deadline, watch, onSigning } = bought
  const { signal } = deadline
  signal.throwIfAborted()
  watch?.status('paying')
  const { reservation, store } = guard.onChannel(line.channel, call.correlationId)
  const { paymentId: id, amount } = reservation
  const growth = growthOf(bought, id, deps.logger)
  const asked = growth?.granted ?? amount
  let isReserved = false
  const reserve = async () => {
    // The caller may have left while the channel wrote other calls to disk.
    signal.throwIfAborted()
    onSigning?.()
    await store()
    isReserved = true
  }
  try {
    const ahead = deps.channels?.aheadOf(terms, asked) ?? 0n
    const channel = await line.pay({ id, asked, ahead, reserve })
    const { afterWindowMs = 0 } = deps
    const windowMs = reservation.validBeforeSeconds * 1000 - deps.clock.now()
    deadline.limit(Math.max(0, windowMs) + afterWindowMs, () => new ResultOverdue())
    watch?.status('running')
    const shown = watch === undefined ? call : { ...call, onOutput: watch.output }
    const sent = { line, reservation, call: shown, seller: terms.seller, streams: deps.streams, growth }
    const response = await sendOnChannel(sent, { ...reservation.envelope, channel }, signal)
    const counted = { reservation, asked: growth?.granted ?? amount, now: deps.clock.now() }
    return { response, reservation, onChannel: chargeOf(response, line, counted) }
  } catch (error) {
    if (error instanceof ChannelRefused || error instanceof ChannelShort) {
      line.drop(id)
      if (error instanceof ChannelShort && !isReserved) throw error
      if (terms.isOnChannelsOnly) throw channelNeeded(`the channel does not pay this call: ${reasonOf(error)}`)
      if (isReserved) guard.instead = id
      deps.logger.info({ reason: reasonOf(error) }, 'a channel does not pay a call; it is paid for by itself')
      return undefined
    }
    // Any other error after the reservation says nothing about the call.
    if (error instanceof PeerError) line.drop(id)
    throw error
  }
}

/** A call whose output is watched is paid for as it comes, if its seller takes that. */
function growthOf({ terms, call, line, watch }: ChannelPurchase, id: Hex, logger: Logger): Growth | undefined {
  const { pricing, channel, showsOutput } = terms
  if (watch === undefined || pricing === undefined || channel?.stream_vouchers !== true || !showsOutput)
    return undefined
  const { correlationId, task } = call
  const growth = new Growth({ line, id, correlationId, pricing, task, logger })
  return growth.grows ? growth : undefined
}

/** Counts the charge of a call at once, and says how the ledger counts it. `asked`: what was signed for it. */
export function chargeOf(
  { charge }: Pick<ReceivedResponse, 'charge'>,
  line: ChannelLine,
  { reservation, asked, now }: { reservation: Pick<Reservation, 'paymentId' | 'metered'>; asked: bigint; now: number },
): ChargedCall {
  const { paymentId: call, metered } = reservation
  const pricing = metered?.pricing
  line.count(call, { asked, charge, pricing }, now)
  return { charge, count: (sums, most) => countIntoSums(sums, { call, asked: most, charge, pricing }) }
}
