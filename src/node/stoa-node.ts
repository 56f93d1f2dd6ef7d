import type { Buyer } from '../buying/buyer.ts'
import type { Config } from '../config/config.ts'
import type { NodePart } from '../http/api/routes/node.ts'
import type { PublicListener } from '../http/public/public-listener.ts'
import type { Api } from '../http/server/app.ts'
import type { ChannelsApi } from '../ledger/channels-api.ts'
import type { LedgerApi } from '../ledger/ledger-api.ts'
import type { Earnings } from '../ledger/stats.ts'
import { isoTime } from '../lib/clock.ts'
import type { ServiceStack } from '../lib/lifecycle.ts'
import type { Search } from '../search/search.ts'
import type { OperateAgents } from '../selling/agent-admin.ts'
import type { Sources } from '../sources/sources.ts'
import { removeNodeFile, writeNodeFile } from '../store/node-file.ts'
import type { StoaNode } from './api.ts'
import type { Fleet } from './fleet.ts'
import type { Foundation } from './foundation.ts'
import type { Listings } from './market.ts'
import type { Uptime } from './node-views.ts'
import type { Selling } from './selling.ts'
import { toldStart } from './slow-start.ts'
import type { Trust } from './trust.ts'

type Parts = Pick<Foundation, 'identity' | 'wallet' | 'host' | 'feed' | 'lost' | 'logger' | 'server' | 'latency'> & {
  listings: Listings
  search: Search
  sources: Sources
  selling: Selling
  ownAgents: OperateAgents
  register: StoaNode['registerAgent']
  buyer: Buyer
  trust: Trust
  ledger: LedgerApi
  channels: ChannelsApi
  earnings: Earnings
  view: NodePart
  api: Api | undefined
  publicDoor: Pick<PublicListener, 'url'> | undefined
  uptime: Uptime
  fleet: Pick<Fleet, 'leave'>
  /** Everything that starts and stops, in start order. */
  stack: ServiceStack
  release(): Promise<void>
}

/** The node as its embedder sees it, made of its finished parts. */
export function createStoaNode(config: Config, parts: Parts): StoaNode {
  const { identity, wallet, host, feed, listings, buyer, trust, view, api, publicDoor, uptime, stack, lost, logger } =
    parts
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= stopParts(config, parts)
    return stopping
  }
  lost.addEventListener('abort', () => {
    stop().catch((error: unknown) => logger.error({ err: error }, 'the node did not stop cleanly'))
  })
  return {
    peerId: identity.peerId,
    did: identity.did,
    walletAddress: wallet.address,
    get apiUrl() {
      return api?.url
    },
    get publicUrl() {
      return publicDoor?.url
    },
    async start() {
      await toldStart(stack.start(), parts)
      uptime.begin()
      await writeNodeFile(config.dataDir, {
        pid: process.pid,
        ...(api !== undefined && { api_url: api.url }),
        peer_id: identity.peerId,
        addresses: host.addresses(),
        started_at: isoTime(uptime.startedAt),
      })
    },
    lost,
    stop,
    addresses: () => host.addresses(),
    listings: () => listings.catalog.all(),
    market: parts.search,
    sources: parts.sources,
    registerAgent: parts.register,
    ownAgents: parts.ownAgents,
    ledger: parts.ledger,
    stats: parts.earnings.stats,
    execute: buyer.execute,
    buyUrl: buyer.buyUrl,
    orders: buyer.orders,
    channels: { ...parts.channels, ...buyer.channelOperations },
    sessions: buyer.sessions,
    workflows: buyer.workflows,
    receipts: trust.api.receipts,
    reputation: trust.api.reputation,
    events: feed,
    status: view.status,
    peers: () => [...view.peers()],
    balance: view.balance,
  }
}

async function stopParts(config: Config, { feed, fleet, logger, lost, selling, stack, release }: Parts): Promise<void> {
  feed.close()
  try {
    await removeNodeFile(config.dataDir)
    // The process that has taken over the ledger lists the same agents.
    const others = lost.aborted ? undefined : await leave(fleet, logger)
    if (others !== undefined && !config.seller.keepListed) await selling.agents.delistAll(others)
    await stack.stop()
  } finally {
    await release()
  }
}

/** The agents that other processes go on selling. Undefined: without the ledger, nobody can tell. */
async function leave(fleet: Parts['fleet'], logger: Parts['logger']): Promise<ReadonlySet<string> | undefined> {
  try {
    return await fleet.leave()
  } catch (error) {
    logger.warn({ err: error }, 'the other processes of this seller could not be told that this one stops')
    return undefined
  }
}
