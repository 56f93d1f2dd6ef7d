import type { ChannelReader } from '../../chain/batch-settlement.ts'
import type { Chain } from '../../chain/chain.ts'
import { findTakenOut } from '../../chain/channel-outflow.ts'
import type { Catalog } from '../../listings/catalog.ts'
import type { PaymentChain } from '../../payments/chain-verdict.ts'
import { createBuyerChannels } from '../../store/buyer-channels.ts'
import type { LedgerDatabase } from '../../store/ledger-database.ts'
import type { Measures } from '../../trust/measures.ts'
import { createChannelOperations } from './channel-operations.ts'
import { createChannels } from './channels.ts'
import type { ChannelsDeps } from './channels-deps.ts'
import type { MissingDeps } from './missing.ts'
import type { ChannelOptions } from './offer.ts'

type Deps = Omit<ChannelsDeps, 'store' | 'onChain' | 'stats' | 'addrsOf'> & {
  database: LedgerDatabase
  chain: PaymentChain | undefined
  channelReader?: ChannelReader | undefined
  chainLog?: Pick<Chain, 'request'> | undefined
  measures: Partial<Pick<Measures, 'counts'>>
  catalog: Pick<Catalog, 'resolve' | 'discovered'>
}

/** A node that opens no channels ends the calls on those that it has, and leaves them. */
const NONE: ChannelOptions = { mode: 'off', aheadCalls: 0, depositMax: 0n, idleMs: Number.POSITIVE_INFINITY }

/** The payment channels of a buyer, and what its operator does with them. */
export function channelsOf(options: ChannelOptions = NONE, deps: Deps) {
  const { chain, channelReader: reader, chainLog, measures, catalog } = deps
  const store = createBuyerChannels(deps.database)
  const takenOut: MissingDeps['takenOut'] = (asked, signal) => findTakenOut(asked, chainLog!, signal)
  const channels = createChannels(options, {
    ...deps,
    store,
    onChain: chain && reader && chainLog && { chain, reader, takenOut },
    stats: (agentId) => measures.counts?.(agentId) ?? { calls: 0, success_rate: null },
    addrsOf: (agentId) => catalog.resolve(agentId)?.addrs ?? [],
  })
  return {
    channels,
    channelOperations: createChannelOperations(options, {
      ...{ channels, store, resolve: catalog.resolve },
      recovery: chainLog && reader && { ...deps, chain: chainLog, reader, channels, listings: catalog.discovered },
    }),
  }
}
