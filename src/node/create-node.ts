import { budgetRules } from '../buying/budget-rules.ts'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import { createNodeApi } from '../http/node-api.ts'
import type { ApiDeps } from '../http/server/app.ts'
import { needsToken } from '../http/server/host-name.ts'
import { createLedger, openRecords } from '../ledger/ledger.ts'
import { publishLedger } from '../ledger/ledger-feed.ts'
import { ledgerMeters } from '../ledger/ledger-meters.ts'
import type { NamesOf } from '../ledger/order-record.ts'
import { ServiceStack, together } from '../lib/lifecycle.ts'
import { silentLogger } from '../lib/logger.ts'
import { Meters } from '../lib/meters.ts'
import { importing } from '../listings/imports.ts'
import { openDataDir } from '../store/data-dir.ts'
import { type Databases, openDatabases } from '../store/databases.ts'
import { removeLeftOverDrafts } from '../store/left-over-drafts.ts'
import { lockDataDir } from '../store/lock.ts'
import { createMeasureStore } from '../store/measures.ts'
import { createSentMessageStore } from '../store/sent-messages.ts'
import { createTaskRecords } from '../store/task-records.ts'
import { createMeasures } from '../trust/measures.ts'
import { createAgentNames } from './agent-names.ts'
import { createAgentProtocols } from './agent-protocols.ts'
import type { Ports, StoaNode } from './api.ts'
import { createBooks } from './books.ts'
import { createBuying } from './buying.ts'
import { createChannelSettlement } from './channel-settlement.ts'
import { joinFleet } from './fleet.ts'
import { type Foundation, layFoundation } from './foundation.ts'
import { housekeeping } from './housekeeping.ts'
import { knownOwner } from './known-owner.ts'
import { createListings, createMarket } from './market.ts'
import { Uptime } from './node-views.ts'
import { createOwnAgentsApi } from './own-agents-api.ts'
import { createPublicDoor } from './public-door.ts'
import { createReporting } from './reporting.ts'
import { createHosting, createSelling } from './selling.ts'
import { toldStart } from './slow-start.ts'
import { createNodeSources } from './sources.ts'
import { createStoaNode } from './stoa-node.ts'
import { createTrust } from './trust.ts'
import { createWorkers } from './workers.ts'
import { createX402Receipts } from './x402-receipts.ts'

/**
 * Builds a complete node from its configuration. Nothing listens before `start`.
 *
 * Takes the lock of the data directory. `stop` releases the lock, so every built node must be stopped.
 *
 * @throws CodedError that says what is wrong with the data directory, its keys, its database or a setting
 */
export async function createNode(config: Config, secrets: Secrets, ports: Partial<Ports> = {}): Promise<StoaNode> {
  const { logger = silentLogger, waitForLedger: wait } = ports
  const { notes } = await openDataDir(config.dataDir)
  for (const note of notes) logger.warn({}, note)
  const lock = lockDataDir(config.dataDir)
  let databases: Databases | undefined
  try {
    await removeLeftOverDrafts(config.dataDir)
    const url = secrets.database?.url
    const owner = url === undefined ? undefined : await knownOwner(config, secrets)
    databases = await openDatabases(config.dataDir, { logger, url, wait, owner })
    const built = layFoundation(config, secrets, ports, databases).then((base) => assemble(config, secrets, base, lock))
    return await toldStart(built, { ...databases, logger })
  } catch (error) {
    await databases?.close()
    lock.release()
    throw error
  }
}

function present<T>(part: T | undefined): T[] {
  return part === undefined ? [] : [part]
}

type Lock = { release(): void }

/** What this node sells, and what settles its payment channels: each needs the other. */
function createSold(
  config: Config,
  secrets: Secrets,
  deps: Parameters<typeof createSelling>[2] & Omit<Parameters<typeof createChannelSettlement>[1], 'channels'>,
) {
  const channels = createChannelSettlement(config, { ...deps, channels: () => selling.channels! })
  const selling = createSelling(config, secrets, { ...deps, channelParts: channels?.parts })
  const kept = selling.channels === undefined ? [] : [selling.channels, ...(channels?.services ?? [])]
  const services = [...kept, ...present(selling.channelOffer)]
  const reports = { channels: () => channels?.summary(), channelTrouble: channels?.parts.trouble }
  return { selling, channels, services, reports }
}

/** The ledger, and what follows its changes. */
function keepLedger({ database, chain, clock, logger, feed, tail }: Foundation, namesOf: NamesOf) {
  const records = openRecords(database, { hasChain: chain !== undefined })
  const ledger = createLedger(records, { logger, namesOf })
  const meters = new Meters()
  ledger.listen(ledgerMeters(meters, clock))
  publishLedger(feed, { ledger, tail }, namesOf)
  return { ledger, meters }
}

/** Builds the parts in the order in which they need each other. */
async function assemble(config: Config, secrets: Secrets, base: Foundation, lock: Lock): Promise<StoaNode> {
  const { database, localDatabase, clock, logger, identity, asset, feed, version, runTime } = base
  const uptime = new Uptime(clock)
  const measures = createMeasures({ store: createMeasureStore(localDatabase), clock, logger })
  const listings = createListings(config.network, { ...base, measures })
  const { catalog, replica } = listings

  const hosting = createHosting(config, base)
  const namesOf = createAgentNames(catalog, { hosted: hosting.hosted, sellerName: config.nodeName })
  const { ledger, meters } = keepLedger(base, namesOf)
  const { payments, exchanges } = ledger

  const common = { ...base, ...hosting, ledger, listings, sender: () => trust.sender() }
  const { api: buyer, streams } = await createBuying(config, { ...common, measures })
  const sold = createSold(config, secrets, { ...common, agentPurchases: buyer.agentPurchases })
  const { selling, channels } = sold
  const joining = { ...base, ...hosting, selling, buyer, uptime, budget: budgetRules(config.buyer) }
  const fleet = await joinFleet({ ...joining, taken: () => [trust.takeOver(), channels?.soon()] })
  const workers = createWorkers({ ...base, ...hosting, selling, fleet, drainMs: config.seller.drainSeconds * 1000 })
  const { agents, registry } = selling
  const { ownAgents, register } = createOwnAgentsApi({ ...base, catalog, selling })
  const x402Receipts = createX402Receipts({ ...base, catalog, buyer, sales: selling.x402 })
  const trust = createTrust(config, { ...base, catalog, namesOf, measures, selling, x402Receipts })
  const market = createMarket({ ...base, listings, measures, standing: trust.standing })
  const publicUrl = () => publicDoor?.url
  const sources = createNodeSources(config, secrets, { ...base, listings, measures, search: market.search, publicUrl })
  const books = createBooks(config, { ...base, namesOf, listings, selling, buyer, trust })
  const reporting = createReporting(config, secrets, {
    ...{ ...base, ...books, ...sold.reports, apiUrl: () => api?.url, catalogs: sources.list },
    publicDoor: () => publicDoor && { url: publicDoor.url, tls: publicDoor.tls() },
    ...{ uptime, meters, namesOf, listings, payments, registry, ownAgents, buyer, fleet, workers: workers.roll },
  })
  const { node: view } = reporting.api
  const messages = createSentMessageStore(database, runTime)
  const bought = { meters, buyer, catalog, sources, search: market.search, balance: view.balance }
  const tasks = { messages, runTime, records: createTaskRecords(database), tail: base.tail }
  const protocols = createAgentProtocols(
    { version, did: identity.did, needsToken: needsToken(config.api), openai: config.openai },
    { ...selling.x402, ...trust.api, ...tasks, ...bought, isStarting: hosting.isStarting },
  )
  const served: ApiDeps = {
    ...{ clock, logger, version, ...books, market: market.search, sources, events: feed, buyer },
    ...{ ownAgents: { ...ownAgents, register, models: selling.models }, workers: workers.roll },
    imports: importing(listings.imports, asset.address, buyer.askPrice),
    ...{ ...trust.api, ...protocols.api, ...reporting.api, isStarting: hosting.isStarting },
  }
  const access = { ...config.api, dataDir: config.dataDir, token: secrets.apiToken }
  const api = config.api.enabled ? await createNodeApi(access, served) : undefined
  const publicDoor = await createPublicDoor(config, { ...base, meters, selling, catalog, a2a: tasks })

  const stack = new ServiceStack([
    ...base.services,
    sources.service,
    ...[selling.exposure, selling.settler, selling.unrun, streams, ...sold.services],
    together('market', [
      ...[replica, ...market.services, measures.service, ...reporting.services, ...trust.services],
      ...housekeeping({ clock, logger, exchanges, keys: buyer.keys, messages, agents, runTime, ...fleet }),
      ...[...buyer.services, ...fleet.services],
    ]),
    together('doors', [...selling.doors, ...workers.doors, protocols.service, ...present(publicDoor), ...present(api)]),
  ])
  async function release(): Promise<void> {
    await base.closeDatabases()
    lock.release()
  }
  return createStoaNode(config, {
    ...{ ...base, ...books, listings, search: market.search, sources, selling, ownAgents, register, buyer, trust },
    ...{ view, api, publicDoor, uptime, fleet, stack, release },
  })
}
