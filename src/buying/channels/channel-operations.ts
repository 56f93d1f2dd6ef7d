import { CodedError } from '../../lib/errors.ts'
import { unknownAgent } from '../../listings/market-error.ts'
import { heldIn } from '../../payments/channels/moved.ts'
import type { Listing } from '../../schema/listing.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { BuyerChannels, StoredChannel } from '../../store/buyer-channels.ts'
import { checkBuyable, type Terms } from '../guard.ts'
import { furtherTerms } from './channel-only.ts'
import type { Channels } from './channels.ts'
import type { ChannelOptions } from './offer.ts'
import { noRpc } from './offer.ts'
import { type ChannelSearchDeps, type RecoveredChannels, recoverChannels } from './recover-channels.ts'

/** What the operator does with the channels by which this node pays. Each resolves when it is on disk. */
export interface ChannelOperations {
  /**
   * Opens a channel to the seller of an agent. `amount`: the deposit in atomic units. Default: by the agent's price.
   *
   * @throws MarketError UNKNOWN_AGENT, CodedError INVALID_REQUEST or CHAIN_UNAVAILABLE
   */
  open(asked: { agentId: string; amount?: bigint | undefined }): Promise<Hex>
  /** Ends new calls on a channel, and takes its money out: from the seller, or else by a withdrawal. @throws CodedError */
  close(id: string): Promise<void>
  /** The same without asking the seller. @throws CodedError */
  withdraw(id: string): Promise<void>
  /**
   * Finds the channels of this wallet that the chain shows and the ledger does not know, and takes their money out.
   *
   * @param days how far back the chain is searched
   * @throws CodedError, ChainError
   */
  recover(days: number, signal: AbortSignal): Promise<RecoveredChannels>
}

type OperationsDeps = {
  channels: Pick<Channels, 'open' | 'exits'>
  store: Pick<BuyerChannels, 'get'>
  resolve(agentId: string): Listing | undefined
  /** Undefined: no RPC is configured. */
  recovery: ChannelSearchDeps | undefined
}

export function createChannelOperations(
  { mode }: Pick<ChannelOptions, 'mode'>,
  { channels, store, resolve, recovery }: OperationsDeps,
): ChannelOperations {
  async function leave(given: string, way: 'refund' | 'withdraw'): Promise<void> {
    const id = given.toLowerCase() as Hex
    const known = await store.get(id)
    if (known === undefined) {
      throw new CodedError(
        'UNKNOWN_CHANNEL',
        'this node pays by no channel with this id: GET /channels?role=buyer lists them',
      )
    }
    if (channels.exits === undefined) throw noRpc()
    if (known.closedAt !== undefined && isEmpty(known)) return
    await channels.exits.leave(id, { why: 'asked', way })
  }

  return {
    async open({ agentId, amount }) {
      const listing = resolve(agentId)
      if (listing === undefined) throw unknownAgent(agentId)
      if (mode === 'off') throw refused('this node uses no payment channels: set buyer.channels: auto in config.yaml')
      const { channel } = listing
      if (listing.local || channel === undefined || listing.imported !== undefined) {
        throw refused(`the seller of ${listing.name} takes no payment channels`)
      }
      checkBuyable(listing)
      return channels.open({ ...termsOf(listing), channel }, amount)
    },
    close: (id) => leave(id, 'refund'),
    withdraw: (id) => leave(id, 'withdraw'),
    async recover(days, signal) {
      if (recovery === undefined) throw noRpc()
      return recoverChannels(days, recovery, signal)
    },
  }
}

function termsOf(listing: Listing): Terms {
  const { id, seller_id: peerId, addrs, price, network, asset, pay_to: payTo } = listing
  const listed = { amount: price, network, asset, payTo }
  return { agentId: id, seller: { peerId, addrs }, listed, ...furtherTerms(listing) }
}

/** True if nothing is left to take out. @internal Exported for its test. */
export function isEmpty(channel: StoredChannel): boolean {
  return heldIn(channel) <= channel.onChain.totalClaimed
}

function refused(why: string): CodedError<'INVALID_REQUEST'> {
  return new CodedError('INVALID_REQUEST', `${why}: nothing was signed`)
}
