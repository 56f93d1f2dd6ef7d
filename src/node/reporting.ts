import { randomUUID } from 'node:crypto'
import type { Registry } from '../agents/registry.ts'
import { APPROVAL_MINUTES } from '../buying/approvals.ts'
import type { Buyer } from '../buying/buyer.ts'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import { shownConfig } from '../config/shown-config.ts'
import type { MetricSources } from '../http/api/metric-family.ts'
import type { NodePart } from '../http/api/routes/node.ts'
import { needsToken } from '../http/server/host-name.ts'
import type { ChannelsApi } from '../ledger/channels-api.ts'
import { nodeFeed } from '../ledger/node-feed.ts'
import type { NamesOf } from '../ledger/order-record.ts'
import type { Earnings } from '../ledger/stats.ts'
import { defined } from '../lib/defined.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Meters } from '../lib/meters.ts'
import { createPost } from '../lib/post.ts'
import type { ChannelsSummary } from '../payments/channels/channels-summary.ts'
import { exposureLimits } from '../payments/exposure.ts'
import type { ListedTerms } from '../payments/requirements.ts'
import { createDoorLooks } from '../protocols/doors/door-looks.ts'
import { formatPrice } from '../schema/amount.ts'
import type { NodeStatus } from '../schema/api.ts'
import type { BudgetRecord } from '../schema/budget.ts'
import type { Listing } from '../schema/listing.ts'
import type { Source as SourceRecord } from '../schema/source.ts'
import type { OperateAgents } from '../selling/agent-admin.ts'
import { createAlarmStore } from '../store/alarms.ts'
import { createBuyerChannels } from '../store/buyer-channels.ts'
import { takeRole } from '../store/ownership.ts'
import type { Payments } from '../store/payments.ts'
import { createWebhookStore } from '../store/webhooks.ts'
import { Webhooks } from '../webhooks/webhooks.ts'
import type { WorkerRoll } from '../workers/worker-roll.ts'
import { createAlarms } from './alarms.ts'
import type { ChannelChecksDeps } from './channel-checks.ts'
import { configuredWebhooks } from './configured-webhooks.ts'
import { diagnose } from './diagnosis.ts'
import { differencesAmong } from './differences.ts'
import { DoorTests } from './door-tests.ts'
import { doorPlaces, doorsOf } from './doors.ts'
import type { Fleet } from './fleet.ts'
import { fleetStatus, fleetView } from './fleet-view.ts'
import type { Foundation } from './foundation.ts'
import { lastKnown } from './last-known.ts'
import type { Listings } from './market.ts'
import { nodeCondition, peerStatus, readBalance, type Uptime } from './node-views.ts'
import { createOutsideLooks } from './outside-looks.ts'
import type { PublicDoorState } from './public-checks.ts'

type ReportingDeps = Pick<
  Foundation,
  | 'clock'
  | 'logger'
  | 'database'
  | 'feed'
  | 'fetch'
  | 'host'
  | 'marketHost'
  | 'peers'
  | 'trading'
  | 'version'
  | 'wallet'
  | 'walletBefore'
  | 'restoredAt'
  | 'asset'
  | 'chain'
  | 'server'
  | 'tail'
  | 'latency'
  | 'isShared'
> & {
  uptime: Pick<Uptime, 'ms'>
  meters: Meters
  namesOf: NamesOf
  listings: Pick<Listings, 'replica' | 'catalog'>
  payments: Pick<Payments, 'oldestOwed' | 'counts'>
  registry: Pick<Registry, 'list'>
  ownAgents: Pick<OperateAgents, 'list'>
  buyer: Pick<Buyer, 'budget' | 'approvals' | 'tokens'>
  earnings: Earnings
  fleet: Pick<Fleet, 'sight' | 'look'>
  workers: Pick<WorkerRoll, 'list'>
  /** Undefined: this node takes no payment channels. */
  channels(): ChannelsSummary | undefined
  channelSums: ChannelsApi['sums']
  channelTrouble: ChannelChecksDeps['channelTrouble']
  /** The listener where strangers buy over HTTP. Undefined: there is none. */
  publicDoor(): PublicDoorState | undefined
  /** The catalogs of config.yaml. */
  catalogs(): readonly SourceRecord[]
  /** Where the local API is. Undefined: it is off. */
  apiUrl(): string | undefined
}

const DAY_MS = 24 * 60 * 60 * 1000

/**
 * Events, webhooks, alarms and metrics: the parts that report on a node. @throws ConfigError for a webhook without its
 * secret
 */
export function createReporting(config: Config, secrets: Secrets, deps: ReportingDeps) {
  const { clock, logger, database, feed, listings, buyer, payments, meters, wallet, chain, tail, isShared } = deps
  const { replica, catalog } = listings
  const webhooks = new Webhooks({
    ...{ clock, logger, feed, isShared },
    isKeeper: async () => !isShared || takeRole(database, 'webhooks'),
    store: createWebhookStore(database),
    newId: randomUUID,
    postOut: createPost({ publicOnly: true }),
    postAnywhere: createPost({ publicOnly: false }),
    configured: configuredWebhooks(config, secrets),
  })
  const reload = () =>
    void webhooks
      .reload()
      .catch((err: unknown) => logger.error({ err }, 'webhooks that changed elsewhere could not be read'))
  tail.listen({ changed: ({ record }) => record === 'webhook' && reload(), missed: reload })
  const seen = { ...deps, catalog, network: config.network, walletAddress: wallet.address, name: config.nodeName }
  /** The alarms are derived from it. */
  const condition = () => {
    const { refused } = deps.latency()
    return {
      ...{ ...nodeCondition(seen, deps.uptime.ms), ...fleetStatus(deps.fleet.sight(), isShared) },
      ...(refused && { refused_change: refused.message }),
      ...defined({ chain_wrong: chain?.wrong() }),
    }
  }
  const agents = () => deps.ownAgents.list()
  /** Another process has the worker, for example. */
  const troubledAgents = () => agents().filter(({ sold_elsewhere: isSold }) => isSold !== true)
  const paying = createBuyerChannels(database)
  const alarms = createAlarms({
    ...{ clock, logger, agents: troubledAgents, store: createAlarmStore(database), isShared, status: condition },
    differences: () => differencesAmong(deps.fleet.sight().alive),
    nameOf: (agentId) => deps.namesOf(agentId)?.name,
    channels: deps.channels,
    paying: () => paying.list(),
  })
  const counts = lastKnown(() => Promise.all([payments.counts(), alarms.count()]))
  async function status(): Promise<NodeStatus> {
    const { value: [{ owed, unsettled }, count] = [{ owed: 0, unsettled: 0 }, undefined], away } = await counts()
    return {
      ...{ ...condition(), settlement: { pending: owed, failed: unsettled } },
      ...(count !== undefined && { alarms: count }),
      ...(away !== undefined && { database: { state: 'away', reason: away } }),
    }
  }
  const peers = () => deps.peers().map(peerStatus)
  const around = { clock, process: database.process, server: deps.server }
  const processes = lastKnown(() => Promise.all([deps.fleet.look(), deps.workers.list()]))
  async function fleet() {
    const { value: [sight, workers] = [deps.fleet.sight(), []], away } = await processes()
    return fleetView(sight, workers, { ...around, away })
  }
  const budget = () => buyer.budget.view()
  const metrics: MetricSources = {
    ...{ meters, status, peers, budget, agents },
    ...{ lagMs: tail.lagMs, latency: deps.latency, workers: deps.workers.list, channels: deps.channels },
    channelSums: deps.channelSums,
    catalogs: deps.catalogs,
    fleet: () => fleetView(deps.fleet.sight(), [], around),
    approvals: (state) => buyer.approvals.list(state),
    async oldestOwedSeconds() {
      const at = await payments.oldestOwed()
      return at === undefined ? 0 : Math.max(0, (clock.now() - at) / 1000)
    },
    certificateDays: () => {
      const tls = deps.publicDoor()?.tls
      return tls && (tls.expiresAt - clock.now()) / DAY_MS
    },
    webhooks: () => webhooks.list(),
    books: () => deps.earnings.stats({ days: 0 }),
  }
  const seenDoors = { ...deps, publicUrl: () => deps.publicDoor()?.url }
  const doorTests = new DoorTests({
    ...{ clock, places: () => doorPlaces(seenDoors), askPeers: createOutsideLooks(deps) },
    listedTerms: (agentId) => termsOf(catalog.resolve(agentId)),
  })
  const localApi = () => ({ url: deps.apiUrl(), needsToken: needsToken(config.api) })
  const node: NodePart = {
    ...{ status, peers, fleet },
    doors: () => doorsOf({ ...seenDoors, config, localApi, tokens: buyer.tokens, tests: doorTests.last }),
    testDoors: doorTests.run,
    balance: () => readBalance(wallet.address, deps.asset, chain),
    configuration: async () => shownConfig(config, inForce(config, await budget())),
    diagnosis: (signal) =>
      diagnose(
        { ...deps, testDoors: doorTests.run, config, agents, condition, status, alarms, sight: deps.fleet.look },
        signal,
      ),
  }
  return {
    api: { node, webhooks, metrics, alarms },
    services: [nodeFeed({ feed, logger, replica, status }), webhooks, alarms, ...looksOf(config, deps)],
  }
}

/** The limits in force: defaults of the seller's guard, and a budget that may have changed while the node runs. */
function inForce({ buyer, seller }: Config, budget: BudgetRecord) {
  const { perPayerMax, totalMax, checkFrom } = exposureLimits
  return {
    'buyer.max_price': budget.per_call,
    'buyer.daily_budget': budget.per_day,
    'buyer.monthly_budget': budget.per_month,
    'buyer.seller_daily_budget': budget.per_seller,
    'buyer.auto_approve_below': budget.auto_approve_below,
    'buyer.approval_minutes': buyer.approvalMinutes ?? APPROVAL_MINUTES,
    'buyer.allow': budget.allow,
    'buyer.deny': budget.deny,
    'seller.unsettled_per_payer': formatPrice(seller.unsettledPerPayerAtomic ?? perPayerMax),
    'seller.unsettled_max': formatPrice(seller.unsettledMaxAtomic ?? totalMax),
    'seller.check_funds_from': formatPrice(seller.checkFundsFromAtomic ?? checkFrom),
  }
}

/** What a listing asks. */
function termsOf(listing: Listing | undefined): ListedTerms | undefined {
  if (listing === undefined) return undefined
  const { price_atomic: amount, network, asset, pay_to: payTo } = listing
  return { amount: BigInt(amount), network, asset, payTo }
}

/** A node that sells to strangers also asks the addresses of other sellers for them. */
function looksOf(config: Config, { clock, logger, host, listings }: ReportingDeps): Service[] {
  if (config.public.port === undefined) return []
  const listedTerms = (agentId: string, sellerId: string) => {
    const listing = listings.catalog.resolve(agentId)
    return listing?.seller_id === sellerId && listing.imported === undefined ? termsOf(listing) : undefined
  }
  const siteOf = (peerId: string) => host.siteOf(peerId)
  return [createDoorLooks({ clock, logger, listedTerms, siteOf, handle: (...args) => host.handle(...args) })]
}
