import { createServer as createHttpServer } from 'node:http'
import { apiOperations } from '../../src/http/api/operations.ts'
import type { ApiDeps, ApiOptions } from '../../src/http/server/app.ts'
import { createGuard } from '../../src/http/server/security.ts'
import { createServer } from '../../src/http/server/server.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { CodedError } from '../../src/lib/errors.ts'
import { Feed } from '../../src/lib/feed.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import type { AgentDefinition } from '../../src/schema/agent.ts'
import type { ExecutionResult, NodeStatus, PeerStatus, WalletBalance } from '../../src/schema/api.ts'
import type { NodeEvents } from '../../src/schema/events.ts'
import type { Fleet } from '../../src/schema/fleet.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { OwnAgent } from '../../src/schema/own-agent.ts'
import type { AgentScope } from '../../src/schema/search.ts'
import type { Source, SourceEntry } from '../../src/schema/source.ts'
import type { Webhook } from '../../src/schema/webhook.ts'
import type { WorkerRecord } from '../../src/schema/worker.ts'
import { fakeLedger } from './fake-ledger.ts'
import { createFakeMarket } from './fake-market.ts'
import { fakeReceipts } from './fake-receipts.ts'

export const localId = 'localagent234567localagent234567'
export const remoteId = 'remoteagent23456remoteagent23456'
const sellerId = '12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7zxWSUEeF27st'
const address = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const hash = `0x${'ab'.repeat(32)}`

export function listingFixture(changes: Partial<Listing> = {}): Listing {
  return {
    id: remoteId,
    name: 'Summary',
    description: 'Summarizes any text.',
    price: 10_000n,
    price_atomic: '10000',
    model: 'builtin/summarize',
    tags: ['text'],
    protocols: ['/x402/libp2p/1.0.0'],
    network: 'eip155:84532',
    asset: address,
    pay_to: address,
    seller_id: sellerId,
    seller_did: 'did:peer:0z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw',
    addrs: [`/ip4/127.0.0.1/tcp/4001/p2p/${sellerId}`],
    version: 1_700_000_000_000,
    updated_at: '2026-11-21T10:00:00.000Z',
    expires_at: '2026-11-22T10:00:00.000Z',
    local: false,
    buyable: true,
    ...changes,
  }
}

export function resultFixture(changes: Partial<ExecutionResult> = {}): ExecutionResult {
  return {
    correlation_id: '7e7d1f3c-1f1e-4b69-9b0e-1f4a9f6a3f10',
    agent_id: remoteId,
    seller_id: sellerId,
    output: 'a summary',
    session_id: 'session-1',
    duration_ms: 12,
    order_id: 'order-1',
    payment: {
      payment_id: hash,
      network: 'eip155:84532',
      asset: address,
      amount: '0.01',
      amount_atomic: '10000',
      payer: address,
      pay_to: address,
      tx_hash: hash,
      settlement: 'settled',
    },
    ...changes,
  }
}

export const statusFixture: NodeStatus = {
  peer_id: sellerId,
  addresses: [`/ip4/127.0.0.1/tcp/4001/p2p/${sellerId}`],
  connected_peers: 1,
  version: '0.1.0',
  uptime_seconds: 5,
  network: 'eip155:84532',
  network_kind: 'test',
  wallet_address: address,
  agents: { local: 1, known: 2 },
  reachability: { state: 'unknown', addresses: [], relays: [], reason: 'no peer is connected that could tell' },
  settlement: { pending: 0, failed: 0 },
}
const fleetFixture: Fleet = {
  processes: [
    {
      ...{ id: 'a1b2c3d4', place: 'one, process 1', answering: true, state: 'selling', version: '0.1.0' },
      ...{ started_at: '2026-11-23T10:00:00.000Z', addresses: [], agents: [localId], running: 0 },
    },
  ],
  ...{ ended: [], missing: 0, roles: [], database: { engine: 'sqlite' }, workers: [] },
}
export const peerFixture: PeerStatus = {
  peer_id: sellerId,
  addresses: [`/ip4/127.0.0.1/tcp/4001/p2p/${sellerId}`],
  direction: 'outbound',
  latency_ms: 1.5,
}
export const balanceFixture: WalletBalance = {
  address,
  network: 'eip155:84532',
  network_kind: 'test',
  asset: address,
  symbol: 'USDC',
  decimals: 6,
  balance: '12.5',
  balance_atomic: '12500000',
}

export const ownAgentFixture: OwnAgent = {
  id: localId,
  name: 'Summary',
  description: 'Summarizes any text.',
  price: 10_000n,
  price_atomic: '10000',
  runs: 'builtin/summarize',
  tags: ['text'],
  timeout_seconds: 120,
  paused: false,
  listed: true,
  runnable: true,
  managed_in_file: false,
}

const writtenFixture = { token_id: '0', network: 'eip155:84532', registry: address, tx_hash: hash }
const reputationFixture = { ...writtenFixture, count: 2, score: 93.5, value: '9350', decimals: 2 }

const cardFixture = {
  name: 'node',
  description: 'a node',
  url: 'http://127.0.0.1/a2a/market',
  protocolVersion: '0.3.0',
}

const sourceFixture: Source = {
  ...{ name: 'cdp', url: 'https://catalog.example', allow_private: false, failures: 0 },
  state: 'unasked',
}
const shownEntry: SourceEntry = {
  ...{ id: `url_${'0'.repeat(40)}`, origin: 'catalog', sources: ['cdp'], type: 'http', method: 'GET' },
  ...{ url: 'https://seller.example/', tags: [], state: 'unchecked', buyable: false, score: 0 },
}
const fakeSources: ApiDeps['sources'] = {
  list: () => [sourceFixture],
  async test(name) {
    if (name !== sourceFixture.name) throw new CodedError('UNKNOWN_SOURCE', 'no such catalog')
    return sourceFixture
  },
  async search({ source = 'cdp' }) {
    if (source !== sourceFixture.name) throw new CodedError('UNKNOWN_SOURCE', 'no such catalog')
    return { entries: [shownEntry], sources: [{ name: 'cdp', ok: true, entries: 1 }], notice: 'data' }
  },
  async probe(id) {
    if (id !== shownEntry.id) throw new CodedError('UNKNOWN_ENTRY', 'no such entry')
    return shownEntry
  },
}

export const loopbackOptions: ApiOptions = {
  host: '127.0.0.1',
  port: 0,
  corsOrigins: [],
  allowedHosts: [],
  insecureOpen: false,
  requireToken: false,
  token: 'a-token-of-some-length',
}

/** Parts that a test replaces. `listings`: the listings of the market, for tests that do not replace `market`. */
export type FakeParts = Omit<ApiDeps, 'buyer' | 'ownAgents'> &
  ApiDeps['buyer'] & {
    listings(): readonly Listing[]
    registerAgent: ApiDeps['ownAgents']['register']
    balance: ApiDeps['node']['balance']
  }
const inScope: Record<AgentScope, (listing: Listing) => boolean> = {
  all: () => true,
  local: ({ local }) => local,
  discovered: ({ local }) => !local,
}

/** The market of a test that names no other: one local and one remote agent. */
export const fakeListings = () => [listingFixture({ id: localId, local: true }), listingFixture()]

/** Everything below the API: one local and one remote agent. Every call is answered. */
export function fakeDeps({
  listings = fakeListings,
  registerAgent = async (definition) => listingOf(definition),
  execute = async ({ agentId, input }) => resultFixture({ agent_id: agentId, output: input }),
  buyUrl = async ({ url, task = '' }) => resultFixture({ agent_id: url, output: task }),
  balance = async () => balanceFixture,
  ...changes
}: Partial<FakeParts> = {}): ApiDeps {
  const market = createFakeMarket(listings)
  const { orders, sessions, workflows, tokens, budget, approvals } = { ...market, ...changes }
  const { ledger, earnings, channels } = fakeLedger()
  const shown = changes.channels ?? channels
  const done = async () => {}
  // Services that wait for another service find no work in an empty store.
  for (const service of market.services) void service.start()
  return {
    isStarting: () => false,
    clock: systemClock,
    logger: silentLogger,
    version: '0.1.0',
    market: {
      page: (_, scope = 'all') => ({ items: listings().filter(inScope[scope]), next: undefined }),
      find: (id) => listings().find((listing) => listing.id === id),
    },
    sources: fakeSources,
    buyer: {
      ...{ execute, buyUrl, orders, sessions, workflows, tokens, budget, approvals },
      channelOperations: {
        open: async () => (await shown.list({ limit: 1 })).items[0]!.id,
        close: done,
        withdraw: done,
        recover: async () => ({ recovered: [], known: 1, empty: 0, older: [], isWhole: true }),
      },
    },
    receipts: fakeReceipts,
    transfers: {
      send: async ({ to, amount, asset = 'USDC' }) => ({
        ...{ tx_hash: hash, network: 'eip155:84532', network_kind: 'test', asset, amount, amount_atomic: '1' },
        ...{ from: address, to },
      }),
    },
    reputation: {
      read: async (tokenId) => ({ ...reputationFixture, token_id: `${tokenId}` }),
      register: async (agent_id, { uri = 'data:,' }) => ({ ...writtenFixture, agent_id, uri, minted: true }),
      rate: async (agent_id, { score }) => ({ ...writtenFixture, agent_id, score }),
      transactions: {
        open: async () => [],
        replace: async (tx_hash) => ({ tx_hash }),
        abandon: async (tx_hash) => ({ tx_hash }),
      },
    },
    events: endedFeed(),
    webhooks: fakeWebhooks(),
    workers: fakeWorkers(),
    metrics: {
      meters: new Meters(),
      status: async () => statusFixture,
      peers: () => [peerFixture],
      webhooks: async () => [],
      budget: () => budget.view(),
      approvals: (state) => approvals.list(state),
      oldestOwedSeconds: async () => 0,
      fleet: () => fleetFixture,
      workers: async () => [],
      agents: () => [ownAgentFixture],
      lagMs: () => 0,
      latency: () => ({ read: undefined, change: undefined }),
      certificateDays: () => undefined,
      catalogs: () => [],
      channels: () => undefined,
      channelSums: () => channels.sums(),
      books: () => earnings.stats({ days: 0 }),
    },
    alarms: fakeAlarms(),
    ledger,
    earnings,
    channels,
    ownAgents: {
      register: registerAgent,
      models: async () => ({ servers: [], builtin: [{ model: 'builtin/echo', description: 'The task itself.' }] }),
      list: () => [ownAgentFixture],
      reload: async () => ({ added: [ownAgentFixture], changed: [], removed: [], unchanged: 2, kept: [] }),
      update: async (_id, { price = ownAgentFixture.price }) => ({ ...ownAgentFixture, price }),
      setPaused: async (_id, paused) => ({ ...ownAgentFixture, paused }),
      remove: async () => ({ ...ownAgentFixture, listed: false }),
      test: async (_id, task) => ({ output: task, duration_ms: 1 }),
      tryOut: async (_agent, task) => ({ output: task, duration_ms: 1 }),
    },
    imports: {
      all: () => [],
      add: async ({ agent_id }) => listingFixture({ imported: { agent_id } }),
      remove: async () => listingFixture({ imported: { agent_id: 'theirs' } }),
    },
    node: {
      status: async () => statusFixture,
      peers: () => [peerFixture],
      fleet: async () => fleetFixture,
      doors: async () => ({ doors: [], openai: openAiFixture, api: { needs_token: false } }),
      testDoors: async () => ({ at: '2026-11-24T10:00:00.000Z', tests: [] }),
      configuration: async () => ({ config_file: '/data/config.yaml', settings: [{ key: 'p2p.port', value: 4001 }] }),
      diagnosis: async () => ({ checks: [{ id: 'rpc', title: 'Chain RPC', state: 'ok', text: 'rpc.example' }] }),
      balance,
    },
    cards: { agents: () => [], node: () => cardFixture, catalog: () => ({ specVersion: '1.0', entries: [] }) },
    ...changes,
  }
}

const openAiFixture = { open: false, max_price: '0.01', daily_budget: '1', spent: '0', spent_today: '0' }

/** Holds one alarm. */
function fakeAlarms(): ApiDeps['alarms'] {
  const about = { title: 'Summary fails often', text: 'Test it.', count: 5, mark: '7' } as const
  const alarm = { id: 'agent_failing-0', kind: 'agent_failing', severity: 'bad', ...about } as const
  return {
    list: async () => [alarm],
    async dismiss(id) {
      if (id !== alarm.id) throw new CodedError('UNKNOWN_ALARM', 'no such alarm')
      return { ...alarm, dismissed_at: '2026-11-21T10:00:00.000Z' }
    },
  }
}

/** Holds one webhook, and accepts every change. */
function fakeWebhooks(): ApiDeps['webhooks'] {
  const counts = { pending: 0, delivered: 0, dropped: 0 }
  const url = 'https://example.org/hook'
  const webhook: Webhook = {
    ...{ id: 'fresh0fresh0', url, events: ['order'], source: 'api', created_at: '2026-11-21T10:00:00Z' },
    ...counts,
  }
  const found = (id: string) => {
    if (id !== webhook.id) throw new CodedError('UNKNOWN_WEBHOOK', 'no such webhook')
    return webhook
  }
  return {
    list: async () => [webhook],
    create: async ({ url, events }) => ({ ...webhook, url, events }),
    remove: async (id) => found(id),
    test: async (id) => ({ delivered: found(id) !== undefined, status: 200, duration_ms: 1 }),
  }
}

function fakeWorkers(): ApiDeps['workers'] {
  const worker: WorkerRecord = {
    ...{ id: 'fresh0fresh0', name: 'gpu-1', state: 'invited', agents: [], running: 0, runs_max: 0 },
    ...{ created_at: '2026-11-23T10:00:00Z', expires_at: '2026-11-24T10:00:00Z' },
  }
  return {
    list: async () => [worker],
    invite: async ({ name = worker.name }) => ({ ...worker, name, token: 'stoa-join_x' }),
    async revoke(id) {
      if (id !== worker.id) throw new CodedError('UNKNOWN_WORKER', 'no such worker')
      return { ...worker, state: 'revoked' }
    },
  }
}

/** A feed whose streams end at once. */
function endedFeed(): Feed<NodeEvents> {
  const feed = new Feed<NodeEvents>({ life: 'test' })
  feed.close()
  return feed
}

/** The API without a socket, called through `inject`. */
export function fakeServer(changes: Partial<FakeParts> = {}, options: Partial<ApiOptions> = {}) {
  const deps = fakeDeps(changes)
  const guard = createGuard({ ...loopbackOptions, ...options }, { identify: deps.buyer.tokens.identify })
  return createServer(apiOperations(deps), { ...deps, guard, adopt: createHttpServer })
}

function listingOf({ name, description, price = 0n, model, tags }: AgentDefinition): Listing {
  const own = { id: localId, name, description, price, price_atomic: price.toString(), tags: tags ?? [], local: true }
  return listingFixture({ ...own, ...(model !== undefined && { model }) })
}
