/** Runs command lines in this process, with outputs that are kept and a node that is not one. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import type { Io, Output } from '../../src/cli/io.ts'
import type { OwnNode, Parts, RemoteNode } from '../../src/cli/parts.ts'
import { runCli } from '../../src/cli/program.ts'
import type { Config } from '../../src/config/config.ts'
import type { Secrets } from '../../src/config/secrets.ts'
import type { ChannelCalls } from '../../src/http/client/channels.ts'
import type { MarketCalls } from '../../src/http/client/market.ts'
import type { OperatorCalls } from '../../src/http/client/operator.ts'
import type { SourceCalls } from '../../src/http/client/sources.ts'
import type { StreamCalls } from '../../src/http/client/stream.ts'
import type { WebhookCalls } from '../../src/http/client/webhooks.ts'
import type { WorkerCalls } from '../../src/http/client/workers.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { Logger } from '../../src/lib/logger.ts'
import type { AgentDefinition } from '../../src/schema/agent.ts'
import type { ExecutionResult, NodeStatus } from '../../src/schema/api.ts'
import type { Fleet } from '../../src/schema/fleet.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { SourceResults } from '../../src/schema/source.ts'
import { writeNodeFile } from '../../src/store/node-file.ts'

export const peerId = '12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz'
export const agentId = 'abcdefghijklmnopqrstuvwxyz'
export const address = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'

/** A data directory of its own for every test. */
export function useDataDir(): () => string {
  let dir = ''
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'stoa-cli-'))
  })
  afterEach(() => rm(dir, { recursive: true, force: true }))
  return () => dir
}

export type Run = { code: number; stdout: string; stderr: string }
export type RunOptions = {
  dataDir?: string
  environment?: Record<string, string>
  parts?: Partial<Parts>
  stdin?: string | Uint8Array
  tty?: boolean
  columns?: number
  signal?: AbortSignal
  /** Called with each piece of standard output. */
  onOutput?(text: string): void
}

export async function cli(argv: readonly string[], options: RunOptions = {}): Promise<Run> {
  const { tty = false, columns = 100, stdin = '', signal = new AbortController().signal } = options
  const run: Run = { code: -1, stdout: '', stderr: '' }
  const output = (name: 'stdout' | 'stderr'): Output => ({
    isTty: tty,
    columns,
    write(text) {
      run[name] += text
      if (name === 'stdout') options.onOutput?.(text)
    },
  })
  const io: Io = {
    stdout: output('stdout'),
    stderr: output('stderr'),
    stdin: {
      isTty: tty,
      async *[Symbol.asyncIterator]() {
        yield Buffer.from(stdin)
      },
    },
    environment: {
      ...(options.dataDir !== undefined && { NODE_DATA_DIR: options.dataDir }),
      ...options.environment,
    },
    signal,
  }
  run.code = await runCli(argv, io, { ...noParts, ...options.parts })
  return run
}

const refuse = (what: string) => () => {
  throw new Error(`this test has no ${what}`)
}
const noParts: Parts = {
  clock: systemClock,
  fetch: refuse('network'),
  createNode: refuse('node'),
  connect: refuse('running node'),
}

export function listing(fields: Partial<Listing> = {}): Listing {
  return {
    id: agentId,
    name: 'Echo',
    description: 'Says it again.',
    price: 10_000n,
    price_atomic: '10000',
    model: 'builtin/echo',
    tags: [],
    protocols: ['/x402/libp2p/1.0.0'],
    network: 'eip155:84532',
    asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    pay_to: address,
    seller_id: peerId,
    seller_did: 'did:peer:0z6Mk',
    addrs: [`/ip4/203.0.113.7/tcp/4001/p2p/${peerId}`],
    version: 1,
    updated_at: '2026-01-01T00:00:00.000Z',
    expires_at: '2026-01-02T00:00:00.000Z',
    local: false,
    buyable: true,
    ...fields,
  }
}

export function result(fields: Partial<ExecutionResult> = {}): ExecutionResult {
  return {
    correlation_id: '3f0e8a52-0a7e-4c1e-9d4a-0d8f4f1c2b11',
    agent_id: agentId,
    seller_id: peerId,
    output: 'the result',
    session_id: 's',
    duration_ms: 1234,
    order_id: 'o',
    payment: null,
    ...fields,
  }
}

export const status: NodeStatus = {
  peer_id: peerId,
  addresses: [`/ip4/127.0.0.1/tcp/4001/p2p/${peerId}`],
  connected_peers: 2,
  version: '0.1.0',
  uptime_seconds: 90,
  network: 'eip155:84532',
  network_kind: 'test',
  wallet_address: address,
  agents: { local: 1, known: 3 },
  reachability: { state: 'unknown', addresses: [], relays: [], reason: 'no peer is connected that could tell' },
  settlement: { pending: 0, failed: 0 },
}

export const fleet: Fleet = {
  processes: [
    {
      ...{ id: 'a1b2c3d4-0000', place: 'one, process 7', answering: true, state: 'selling', version: '1.0.0' },
      ...{ started_at: '2026-11-23T10:00:00.000Z', lease_seconds: 19, running: 2, agents: ['a'] },
      ...{ addresses: ['/ip4/203.0.113.7/tcp/4001'], clock_ahead_ms: 12, lag_ms: 300 },
      ...{ read: { p50_ms: 0.8, p99_ms: 4, count: 9 }, change: { p50_ms: 1.25, p99_ms: 8, count: 9 } },
    },
    {
      ...{ id: 'e5f6a7b8-0000', place: 'two, process 9', answering: false, state: 'draining', version: '0.9.0' },
      ...{ started_at: '2026-11-23T10:00:00.000Z', lease_seconds: 14, running: 1, agents: [] },
      ...{ addresses: [], clock_ahead_ms: 3_600_000 },
    },
    {
      ...{ id: 'c9d0e1f2-0000', place: 'three, process 4', answering: false, state: 'ready', version: '1.0.0' },
      ...{ started_at: '2026-11-23T10:00:00.000Z', lease_seconds: 15, running: 0, agents: [], addresses: [] },
    },
  ],
  ended: [],
  missing: 1,
  roles: [{ name: 'housekeeping', process: 'e5f6a7b8-0000' }],
  database: { engine: 'postgres', server: 'db.example:5432/stoa' },
  workers: [
    {
      ...{ id: '4fJm0q2pYb1x', name: 'gpu-1', state: 'connected', agents: ['Painter'], running: 1, runs_max: 4 },
      ...{ created_at: '2026-11-23T10:00:00.000Z', expires_at: '2026-11-24T10:00:00.000Z' },
    },
  ],
}

const foundEntries: SourceResults = { entries: [], sources: [], notice: '' }

/** A node in the command's own process, and what was asked of it. */
export function fakeNode(fields: Partial<OwnNode> = {}) {
  const seen = {
    config: undefined as Config | undefined,
    secrets: undefined as Secrets | undefined,
    logger: undefined as Logger | undefined,
    calls: [] as string[],
    registered: [] as AgentDefinition[],
    /** `after`: how many calls came before. */
    expected: [] as { names: string[]; after: number }[],
    executed: [] as Parameters<OwnNode['execute']>[0][],
    bought: [] as Parameters<OwnNode['buyUrl']>[0][],
  }
  const node: OwnNode = {
    peerId,
    walletAddress: address,
    apiUrl: 'http://127.0.0.1:8424',
    lost: new AbortController().signal,
    async start() {
      seen.calls.push('start')
    },
    async stop() {
      seen.calls.push('stop')
    },
    addresses: () => status.addresses,
    listings: () => [listing()],
    status: async () => ({}),
    market: {
      page: () => ({ items: node.listings(), next: undefined }),
      find: (agentId) => node.listings().find(({ id }) => id === agentId),
    },
    sources: { search: async () => foundEntries },
    orders: { list: async () => ({ items: [], next: undefined }) },
    async registerAgent(definition) {
      seen.calls.push('register')
      seen.registered.push(definition)
      const { name, description, price = 0n, model } = definition
      return listing({ name, description, price, price_atomic: `${price}`, model, local: true })
    },
    ownAgents: {
      expect(definitions) {
        seen.expected.push({ names: definitions.map(({ name }) => name), after: seen.calls.length })
      },
      async keep(definition) {
        seen.calls.push('keep')
        seen.registered.push(definition)
        return {}
      },
      async reload() {
        seen.calls.push('reload')
      },
    },
    async execute(request) {
      seen.executed.push(request)
      return result()
    },
    async buyUrl(request) {
      seen.bought.push(request)
      return result()
    },
    ...fields,
  }
  const createNode: Parts['createNode'] = async (config, secrets, { logger }) => {
    Object.assign(seen, { config, secrets, logger })
    return node
  }
  return { seen, parts: { createNode } satisfies Partial<Parts> }
}

/** The calls that most commands do not make. */
const unasked = Object.fromEntries(
  (
    [
      'createOrder',
      'executeOrder',
      'cancelOrder',
      'order',
      'orders',
      'registerOnchain',
      'giveFeedback',
      'receipts',
      'receipt',
      'sessions',
      'session',
      'quoteWorkflow',
      'createWorkflow',
      'cancelWorkflow',
      'workflow',
      'workflows',
      'ownAgents',
      'reloadAgents',
      'updateAgent',
      'pauseAgent',
      'resumeAgent',
      'removeAgent',
      'testAgent',
      'payments',
      'payment',
      'retryPayment',
      'stats',
      'events',
      'executeStreamed',
      'webhooks',
      'createWebhook',
      'removeWebhook',
      'testWebhook',
      'createToken',
      'tokens',
      'revokeToken',
      'budget',
      'changeBudget',
      'alarms',
      'dismissAlarm',
      'approvals',
      'decideApproval',
      'decideApprovals',
      'workers',
      'inviteWorker',
      'revokeWorker',
      'channels',
      'channel',
      'channelSums',
      'openChannel',
      'leaveChannel',
      'recoverChannels',
      'sources',
      'testSource',
      'searchSources',
      'probeEntry',
      'doors',
      'testDoors',
    ] as const satisfies (keyof RemoteNode)[]
  ).map((name) => [name, refuse(name)]),
) as unknown as MarketCalls &
  OperatorCalls &
  ChannelCalls &
  StreamCalls &
  WebhookCalls &
  SourceCalls &
  WorkerCalls &
  Pick<RemoteNode, 'doors' | 'testDoors'>

/** A running node: what it has written, and its API. */
export async function runningNode(dataDir: string, fields: Partial<RemoteNode> = {}) {
  const seen = {
    connected: [] as { url: string; token: string | undefined }[],
    executed: [] as unknown[],
    bought: [] as unknown[],
  }
  await writeNodeFile(dataDir, {
    pid: process.pid,
    api_url: 'http://127.0.0.1:8424',
    peer_id: peerId,
    addresses: status.addresses,
    started_at: '2026-01-01T00:00:00.000Z',
  })
  const node: RemoteNode = {
    ...unasked,
    searchAgents: async () => ({ items: await node.agents(), next: undefined }),
    agents: async () => [listing()],
    // Whatever an agent is called here is its id.
    agent: async (id) => listing({ id }),
    registerAgent: refuse('registerAgent'),
    execute: async (call) => {
      seen.executed.push(call)
      return result()
    },
    buyUrl: async (call) => {
      seen.bought.push(call)
      return result()
    },
    status: async () => status,
    peers: async () => [],
    fleet: async () => fleet,
    balance: async () => ({
      address,
      network: 'eip155:84532',
      network_kind: 'test' as const,
      asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
      symbol: 'USDC',
      decimals: 6,
      balance: '12.5',
      balance_atomic: '12500000',
    }),
    ...fields,
  }
  const connect: Parts['connect'] = async (url, token) => {
    seen.connected.push({ url, token })
    return node
  }
  return { seen, parts: { connect } satisfies Partial<Parts> }
}
