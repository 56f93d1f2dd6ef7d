import type { ChannelReader, ChannelState } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { findChannels } from '../../chain/channel-log.ts'
import type { Clock } from '../../lib/clock.ts'
import { sameAddress } from '../../payments/assets.ts'
import { channelId } from '../../payments/channel-digests.ts'
import type { Wallet } from '../../payments/wallet.ts'
import type { ChannelConfig } from '../../schema/channel.ts'
import type { Listing } from '../../schema/listing.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { StoredChannel } from '../../store/buyer-channels.ts'
import type { Channels } from './channels.ts'

/** Channels that are read from the chain in one call. */
const READ_AT_ONCE = 50

const WHY = 'it was found in the log of the chain: this ledger does not know what was signed on it'

/** What a search of the chain has found. */
export type RecoveredChannels = {
  /** Channels with money that the ledger did not know. This node takes their money out now. */
  recovered: readonly Hex[]
  /** How many channels with money the ledger knows already. */
  known: number
  /** How many channels have nothing left to take out. */
  empty: number
  /** Channels whose terms are in an older part of the log. */
  older: readonly Hex[]
  /** False if the RPC did not show all of the days. */
  isWhole: boolean
}

export type ChannelSearchDeps = {
  chain: Pick<Chain, 'request'>
  reader: Pick<ChannelReader, 'channels'>
  channels: Pick<Channels, 'add'> & { readonly exits: Pick<NonNullable<Channels['exits']>, 'followed'> | undefined }
  wallet: Wallet
  clock: Clock
  listings(): Iterable<Listing>
}

/**
 * Finds the channels of this wallet in the log of the chain, and leaves those that the ledger does not know. It signs
 * nothing on them. What their calls have cost is not known, so all that is not claimed is taken out: the seller, who has
 * the vouchers, can claim before it gives a refund, and while a withdrawal waits.
 *
 * @param days how far back to look. The first deposit of a channel must be in them
 * @throws ChainError, StoreError, or the reason of `signal`
 */
export async function recoverChannels(
  days: number,
  deps: ChannelSearchDeps,
  signal: AbortSignal,
): Promise<RecoveredChannels> {
  const { chain, reader, channels, wallet } = deps
  const { chainId, address: token } = wallet.asset
  const id = (config: ChannelConfig) => channelId(config, chainId)
  const { terms, older, isWhole } = await findChannels({ payer: wallet.address, token, days, id }, chain, signal)
  const recovered: Hex[] = []
  let [known, empty] = [0, 0]
  const found = [...terms]
  for (let start = 0; start < found.length; start += READ_AT_ONCE) {
    const some = found.slice(start, start + READ_AT_ONCE)
    const states = await reader.channels(
      some.map(([channel]) => channel),
      signal,
    )
    for (const [index, [channel, config]] of some.entries()) {
      const onChain = states[index]!
      if (onChain.balance <= onChain.totalClaimed) empty++
      else if (await channels.add(foundChannel({ id: channel, config, onChain }, deps))) recovered.push(channel)
      else known++
    }
  }
  for (const channel of recovered) await channels.exits?.followed(channel)
  return { recovered, known, empty, older, isWhole }
}

function foundChannel(
  { id, config, onChain }: { id: Hex; config: ChannelConfig; onChain: ChannelState },
  { wallet, clock, listings }: ChannelSearchDeps,
): StoredChannel {
  const now = clock.now()
  const seller = sellerOf(config, listings())
  return {
    ...{ id, config, onChain, moved: { in: onChain.balance, out: 0n } },
    ...{ network: wallet.asset.network, deposit: undefined, tokenIds: [] },
    ...{ sellerId: seller?.seller_id ?? '', agentId: seller?.id },
    // No one knows what was signed. Nothing more is.
    ...{ mark: onChain.balance, charged: onChain.totalClaimed, seq: 0, statedSeq: 0, early: new Map(), stopped: WHY },
    leaving: { why: 'asked', way: seller === undefined ? 'withdraw' : 'refund', since: now },
    ...{ createdAt: now, usedAt: now },
  }
}

/** An agent of the seller that is paid by this channel, if it is on the market now. */
function sellerOf({ receiver, receiverAuthorizer }: ChannelConfig, listings: Iterable<Listing>): Listing | undefined {
  for (const listing of listings) {
    const { local, pay_to: payTo, channel } = listing
    if (local || channel === undefined || !sameAddress(payTo, receiver)) continue
    if (sameAddress(channel.receiver_authorizer, receiverAuthorizer)) return listing
  }
  return undefined
}
