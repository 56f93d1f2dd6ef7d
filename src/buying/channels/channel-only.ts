import { idle } from '../../lib/wait.ts'
import { MarketError } from '../../listings/market-error.ts'
import { usdc } from '../../schema/amount.ts'
import { isOnChannelsOnly, type Listing } from '../../schema/listing.ts'
import type { Order } from '../../store/order-row.ts'
import { channelPrice, type Terms } from '../guard.ts'
import type { ChannelLine } from './channel-line.ts'
import { ChannelShort } from './channel-short.ts'
import type { CallPayer } from './place-deposit.ts'

/** How long a call waits for the first deposit at a seller that is paid on channels only. */
const OPEN_MS = 90_000
const LOOK_MS = 250

/**
 * Whether a call that no other way can pay looks for a channel for the first time, or again. `waiting`: another way can, and the
 * call looks again.
 */
export type ChannelNeed = 'first' | 'again' | 'waiting'

/** The channels of this node. */
type Lines = {
  lineFor(
    terms: Terms,
    wish: Order['channelWish'],
    payer: CallPayer | undefined,
    need: ChannelNeed,
  ): ChannelLine | undefined
  obstacle(terms: Terms): string | undefined
  failure(terms: Terms): string | undefined
}

/** What a listing says of calls beside the price of one: their time limit, and how channels pay them. */
export function furtherTerms(listing: Listing): Omit<Terms, 'agentId' | 'resource' | 'seller' | 'listed' | 'hops'> {
  const { timeout_seconds: timeoutSeconds, channel, pricing, streaming } = listing
  const showsOutput = streaming !== undefined && streaming !== 'off'
  return { timeoutSeconds, channel, pricing, showsOutput, isOnChannelsOnly: isOnChannelsOnly(listing) }
}

/**
 * Pays a call to an agent that is sold on channels only. There is no other way to pay, so the call waits for the deposit. If
 * calls that began together have used up what was free, it waits for the next one.
 *
 * @param pay rejects with ChannelShort if nothing of the call is on disk and the channel does not pay it
 * @throws MarketError CHANNEL_NEEDED; the reason of `signal`; what `pay` throws
 */
export async function payOnNeeded<Paid>(
  { terms, wish, payer }: { terms: Terms; wish: Order['channelWish']; payer?: CallPayer },
  pay: (line: ChannelLine) => Promise<Paid>,
  channels: Lines | undefined,
  signal: AbortSignal,
): Promise<Paid> {
  if (wish === 'never') throw channelNeeded('this call wants none: leave out --no-channel, or channel: never')
  const obstacle = channels === undefined ? 'this node pays on none' : channels.obstacle(terms)
  if (channels === undefined || obstacle !== undefined) throw channelNeeded(obstacle ?? '')
  const opening = AbortSignal.any([signal, AbortSignal.timeout(OPEN_MS)])
  let need: ChannelNeed = 'first'
  do {
    signal.throwIfAborted()
    const line = channels.lineFor(terms, wish, payer, need)
    if (line !== undefined) {
      try {
        return await pay(line)
      } catch (error) {
        if (!(error instanceof ChannelShort)) throw error
      }
    }
    need = 'again'
    const failure = channels.failure(terms)
    if (failure !== undefined) throw channelNeeded(`no deposit was made: ${failure}`)
  } while (await idle(LOOK_MS, opening))
  signal.throwIfAborted()
  throw channelNeeded('no deposit has landed yet (the log says why): try again later')
}

/** Why no channel of this node will ever pay a call. Undefined: one pays it, or will. */
export function obstacleTo(
  terms: Terms,
  { mode, depositMax, hasRpc }: { mode: 'off' | 'auto' | 'always'; depositMax: bigint; hasRpc: boolean },
): string | undefined {
  if (mode === 'off') return 'this node pays on none: set buyer.channels: auto'
  if (!hasRpc) return 'this node needs an RPC endpoint for them: set --rpc-url'
  if (terms.channel === undefined) return 'its seller takes none now'
  const amount = channelPrice(terms)
  if (amount <= depositMax) return undefined
  const deposits = `this node deposits ${usdc(depositMax)} at one seller: raise buyer.channel_deposit_max`
  return `a call may cost ${usdc(amount)}, and ${deposits}`
}

/** Nothing was charged. */
export function channelNeeded(reason: string): MarketError {
  return new MarketError(
    'CHANNEL_NEEDED',
    `this agent is sold on payment channels only, and ${reason}; nothing was charged`,
  )
}
