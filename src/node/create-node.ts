import { randomBytes } from 'node:crypto'
import { approvalMsOf, budgetRules } from '../buying/budget-rules.ts'
import { createBuyer } from '../buying/buyer.ts'
import { createWalletChecks } from '../buying/wallet-code.ts'
import { openChain } from '../chain/open-chain.ts'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import { createNodeApi } from '../http/node-api.ts'
import type { ApiDeps } from '../http/server/app.ts'
import { needsToken } from '../http/server/host-name.ts'
import { createLedger, openRecords } from '../ledger/ledger.ts'
import { createLedgerApi } from '../ledger/ledger-api.ts'
import { ledgerFeed, type NodeFeed } from '../ledger/ledger-feed.ts'
import { ledgerMeters } from '../ledger/ledger-meters.ts'
import { createEarnings } from '../ledger/stats.ts'
import { createTrading } from '../ledger/trading.ts'
import { isoTime, systemClock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { Feed } from '../lib/feed.ts'
import { ServiceStack, together } from '../lib/lifecycle.ts'
import { silentLogger } from '../lib/logger.ts'
import { Meters } from '../lib/meters.ts'
import { Pace } from '../lib/pace.ts'
import { patientFetch } from '../lib/patient-fetch.ts'
import { stoaVersion } from '../lib/version.ts'
import { createHost } from '../p2p/host.ts'
import { loadOrCreateIdentity } from '../p2p/identity.ts'
import { assetOf } from '../payments/assets.ts'
import { openFacilitator } from '../payments/open-facilitator.ts'
import { retrySettlement } from '../payments/outbox-entry.ts'
import { createWallet } from '../payments/wallet.ts'
import { loadOrCreateWalletKey } from '../payments/wallet-key.ts'
import { asOverloaded } from '../protocols/x402/exchange.ts'
import type { Listing } from '../schema/listing.ts'
import { createOperateAgents } from '../selling/agent-admin.ts'
import { dataFile, openDataDir } from '../store/data-dir.ts'
import type { Database } from '../store/database.ts'
import { createLedgerReader } from '../store/ledger-reader.ts'
import { removeLeftOverDrafts } from '../store/left-over-drafts.ts'
import { lockDataDir } from '../store/lock.ts'
import { createMeasureStore } from '../store/measures.ts'
import { removeNodeFile, writeNodeFile } from '../store/node-file.ts'
import { openLedger } from '../store/open-ledger.ts'
import { PeerDatastore } from '../store/peer-datastore.ts'
import { createRunTime } from '../store/run-time.ts'
import { createSentMessageStore } from '../store/sent-messages.ts'
import { createTaskRecords } from '../store/task-records.ts'
import { createTransactions } from '../store/transactions.ts'
import { createMeasures } from '../trust/measures.ts'
import { createStandards } from './agent-protocols.ts'
import type { Ports, StoaNode } from './api.ts'
import { housekeeping } from './housekeeping.ts'
import { createMarket } from './market.ts'
import { nodeStatus, peerStatus, walletBalance } from './node-views.ts'
import { createObserving } from './reporting.ts'
import { createTrust } from './reputation.ts'
import { createSelling } from './selling.ts'

/**
 * Builds a complete node from its configuration. Nothing listens before `start`.
 *
 * Takes the lock of the data directory. `stop` releases the lock, so every built node must be stopped.
 *
 * @throws CodedError that says what is wrong with the data directory, its keys, its database or a setting
 */
export async function createNode(config: Config, secrets: Secrets, ports: Partial<Ports> = {}): Promise<StoaNode> {
  const { clock = systemClock, logger = silentLogger, fetch: fetchUrl = patientFetch } = ports
  const random = ports.randomBytes ?? randomBytes
  const { notes } = await openDataDir(config.dataDir)
  for (const note of notes) logger.warn({}, note)
  const lock = lockDataDir(config.dataDir)
  let ledgerFile: Database | undefined
  try {
    await removeLeftOverDrafts(config.dataDir)
    ledgerFile = await openLedger(config.dataDir, { logger })
    return await assemble(ledgerFile)
  } catch (error) {
    await ledgerFile?.close()
    lock.release()
    throw error
  }

  async function assemble(database: Database): Promise<StoaNode> {
    // Identity and wallet.
    const identity = await loadOrCreateIdentity(dataFile(config.dataDir, 'identity'), { logger })
    const { key } = await loadOrCreateWalletKey(config.dataDir, secrets)
    const asset = assetOf(config.network)!
    const wallet = createWallet(key, asset)

    // Stored data.
    const feed: NodeFeed = new Feed({ life: clock.now().toString(36) })
    const trading = createTrading({ database, dataDir: config.dataDir, clock, logger })
    const datastore = new PeerDatastore({}, { database, logger })
    const runTime = createRunTime(database, clock)
    const messages = createSentMessageStore(database, runTime)

    // Network, chain and market.
    const version = stoaVersion()
    const pace = new Pace()
    const host = await createHost({ ...config.p2p, version }, { identity, datastore, clock, logger, pace })
    const chain = await openChain(config, asset, logger)
    const facilitator = ports.facilitator ?? openFacilitator(config, secrets, { clock, logger, chain })
    const measures = createMeasures({ store: createMeasureStore(database), clock, logger })
    const standing = (listing: Listing) => trust.standing(listing)
    const market = createMarket({
      ...{ host, identity, database, clock, logger, pace, measures, standing },
      network: config.network,
      copied: trading.copied,
    })
    const { replica, catalog } = market

    // Ledger.
    const meters = new Meters()
    const records = openRecords(database, { hasChain: chain !== undefined })
    const ledger = createLedger(records, { logger, namesOf: catalog.resolve })
    ledger.listen(ledgerMeters(meters, clock))
    ledger.listen(ledgerFeed(feed, ledger, catalog.resolve))

    // Selling.
    const transactions = createTransactions(database)
    const selling = createSelling(config, secrets, {
      tokenOf: (agentId) => transactions.tokenOf(agentId, config.network),
      ...{ identity, wallet, asset, trading, ledger, market, host, facilitator, chain },
      ...{ clock, logger, pace, fetch: fetchUrl, random, agentPurchases: () => buyer.agentPurchases },
    })
    const { agents, registry, models, named } = selling

    // Buying.
    const buyer = createBuyer(
      {
        ...{ callerDid: identity.did, sellerId: identity.peerId },
        ...{ rules: budgetRules(config.buyer), approvalMs: approvalMsOf(config.buyer) },
        maxWindowSeconds: config.buyer.maxWindowSeconds,
        allowSettleFirst: config.buyer.allowSettleFirst,
      },
      {
        ...{ clock, logger, database, runTime, trading, ledger, feed, wallet, asset, catalog, replica, chain, random },
        funds: chain && createWalletChecks({ clock, logger, wallet, chain }),
        openStream: (...args) => host.openStream(...args),
        superseded: (stream) => host.superseded(stream),
        measures,
        runOwn: (id, call) => agents.run(id, call).catch(asOverloaded),
      },
    )

    // Trust in sellers.
    const trust = createTrust({
      ...{ database, catalog, measures, chain, wallet, transactions, clock, feed, logger },
      rateEvery: config.buyer.rateEvery,
      relist: (agentId) => agents.relist(agentId),
      imageOf: (agentId) => registry.get(agentId)?.definition.image,
      publicUrl: config.publicUrl,
    })

    // Reads of the ledger, and statistics.
    const reader = createLedgerReader(database, { hasChain: chain !== undefined, network: config.network })
    const nameOf = (agentId: string) => catalog.resolve(agentId)?.name
    const ledgerApi = createLedgerApi({
      ...{ ledger: reader, nameOf, named, look: buyer.look, ownerOf: buyer.ownerOf, isReceived: buyer.isReceived },
      retrySettlement: (id) => retrySettlement(id, { ...selling.outbox, clock, hasChain: chain !== undefined }),
      refund: trust.refundsOf(selling.x402).refund,
    })
    const earnings = createEarnings({ clock, ledger: reader, decimals: asset.decimals, nameOf })
    const ownAgents = createOperateAgents({
      ...{ clock, agents, registry, isListed: (id) => catalog.resolve(id) !== undefined },
    })

    // The node's API.
    let startedAt = clock.now()
    const seen = {
      ...{ host, registry, catalog, payments: ledger.payments, trading, version },
      ...{ network: config.network, walletAddress: wallet.address, name: config.nodeName },
    }
    const node: StoaNode = {
      peerId: identity.peerId,
      did: identity.did,
      walletAddress: wallet.address,
      get apiUrl() {
        return api?.url
      },
      async start() {
        await stack.start()
        startedAt = clock.now()
        await writeNodeFile(config.dataDir, {
          pid: process.pid,
          ...(api === undefined ? {} : { api_url: api.url }),
          peer_id: identity.peerId,
          addresses: host.addresses(),
          started_at: isoTime(startedAt),
        })
      },
      async stop() {
        feed.close()
        try {
          await removeNodeFile(config.dataDir)
          if (!config.seller.keepListed) await agents.delistAll()
          await stack.stop()
        } finally {
          await database.close()
          lock.release()
        }
      },
      addresses: () => host.addresses(),
      listings: () => catalog.all(),
      market: market.search,
      async registerAgent(definition, { persist = true, run } = {}) {
        const register = () => agents.register(definition, { persist })
        const listing = catalog.resolve(await selling.functions.register(definition, run, register))
        if (listing === undefined) throw new CodedError('LISTING_INVALID', `${definition.name} could not be listed`)
        return listing
      },
      ownAgents,
      ledger: ledgerApi,
      stats: earnings.stats,
      execute(request) {
        pace.noteCall()
        return buyer.execute(request)
      },
      orders: buyer.orders,
      sessions: buyer.sessions,
      workflows: buyer.workflows,
      receipts: trust.api.receipts,
      reputation: trust.api.reputation,
      events: feed,
      status: () => observing.status(),
      peers: () => host.peers().map(peerStatus),
      balance: () => walletBalance(wallet.address, asset, chain),
    }
    const observing = createObserving(config, secrets, {
      ...{ clock, logger, database, feed, replica, meters, payments: ledger.payments },
      condition: () => nodeStatus(seen, clock.now() - startedAt),
      ...{ peers: node.peers, nameOf, stats: earnings.stats },
      budget: () => buyer.budget.view(),
      approvals: (state) => buyer.approvals.list(state),
      fetch: fetchUrl,
      agents: () => ownAgents.list(),
    })
    const standards = createStandards(
      { version, did: identity.did, needsToken: needsToken(config.api) },
      {
        ...selling.x402,
        records: createTaskRecords(database),
        ...{ messages, runTime },
        buyer,
        catalog,
        search: market.search,
        receipts: trust.api.receipts,
        balance: node.balance,
      },
    )
    const { status, peers, balance, registerAgent: register } = node
    const { configuration, diagnosis, ...reports } = observing.api
    const served: ApiDeps = {
      ...{ clock, logger, version, ledger: ledgerApi, earnings, market: market.search, events: feed },
      node: { status, peers, balance, configuration, diagnosis },
      ownAgents: { ...ownAgents, register, models },
      imports: market.importing(asset.address, buyer.askPrice),
      buyer: { ...buyer, execute: node.execute },
      ...trust.api,
      ...standards.api,
      ...reports,
    }
    const access = { ...config.api, dataDir: config.dataDir, token: secrets.apiToken }
    const api = config.api.enabled ? await createNodeApi(access, served) : undefined

    const pools = { name: 'streams', start: async () => {}, stop: () => buyer.streams.close() }
    const outbox = { name: 'facilitator', start: async () => {}, stop: async () => facilitator?.close() }
    const stack = new ServiceStack([
      datastore,
      host,
      outbox,
      selling.settler,
      pools,
      together('market', [
        ...market.services,
        measures.service,
        ...observing.services,
        ...trust.services,
        ...housekeeping({ ...{ clock, logger, messages, agents }, exchanges: ledger.exchanges, keys: buyer.keys }),
        ...buyer.services,
      ]),
      together('doors', [...selling.doors, standards.service, ...(api === undefined ? [] : [api])]),
    ])
    return node
  }
}
