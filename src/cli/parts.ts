import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import type { ChannelCalls } from '../http/client/channels.ts'
import type { ApiClient } from '../http/client/client.ts'
import type { MarketCalls } from '../http/client/market.ts'
import type { OperatorCalls } from '../http/client/operator.ts'
import type { BuyUrlCall } from '../http/client/requests.ts'
import type { SourceCalls } from '../http/client/sources.ts'
import type { StreamCalls } from '../http/client/stream.ts'
import type { WebhookCalls } from '../http/client/webhooks.ts'
import type { WorkerCalls } from '../http/client/workers.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { patientFetch } from '../lib/http.ts'
import type { Logger } from '../lib/logger.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import type { ExecutionResult, NodeStatus } from '../schema/api.ts'
import type { ChannelWish } from '../schema/channel.ts'
import type { OnProgress } from '../schema/execution.ts'
import type { Listing } from '../schema/listing.ts'
import type { OrderRecord } from '../schema/order.ts'
import type { OwnAgent } from '../schema/own-agent.ts'
import type { Page } from '../schema/page.ts'
import type { Hex } from '../schema/primitives.ts'
import type { AgentQuery } from '../schema/search.ts'
import type { EntryQuery, SourceResults } from '../schema/source.ts'
import type { WaitForLedger } from '../store/server-ledger.ts'

export type ExecuteRequest = {
  agentId: string
  input: string
  maxPriceAtomic?: bigint
  awaitsSettlement?: boolean
  channel?: ChannelWish
  signal: AbortSignal
  onProgress?: OnProgress
}

export type BuyUrlRequest = BuyUrlCall & { signal: AbortSignal }

/** What commands need of a node in their own process. `StoaNode` implements it. */
export interface OwnNode {
  /** Aborts if the node stops because other processes have taken over its work. */
  readonly lost: AbortSignal
  start(): Promise<void>
  stop(): Promise<void>
  readonly peerId: string
  readonly walletAddress: Hex
  readonly apiUrl: string | undefined
  addresses(): string[]
  listings(): Listing[]
  status(): Promise<Pick<NodeStatus, 'search'>>
  readonly market: { page(query: AgentQuery): Page<Listing>; find(id: string): Listing | undefined }
  readonly sources: { search(query: EntryQuery, signal: AbortSignal): Promise<SourceResults> }
  registerAgent(definition: AgentDefinition, options?: { persist: boolean; stored?: boolean }): Promise<Listing>
  readonly ownAgents: {
    expect(definitions: readonly AgentDefinition[]): void
    keep(definition: AgentDefinition, options: { stored: boolean }): Promise<Pick<OwnAgent, 'sold_elsewhere'>>
    reload(): Promise<unknown>
  }
  execute(request: ExecuteRequest & { idempotencyKey?: string }): Promise<ExecutionResult>
  buyUrl(request: BuyUrlRequest): Promise<ExecutionResult>
  readonly orders: { list(query: { idempotencyKey: string; limit: number }): Promise<Page<OrderRecord>> }
}

/** What commands need of a node in another process: its HTTP API. */
export type RemoteNode = MarketCalls &
  OperatorCalls &
  ChannelCalls &
  WebhookCalls &
  SourceCalls &
  WorkerCalls &
  StreamCalls &
  Pick<
    ApiClient,
    'agents' | 'registerAgent' | 'execute' | 'buyUrl' | 'status' | 'peers' | 'fleet' | 'doors' | 'testDoors' | 'balance'
  >

/** The large dependencies of commands. Tests replace them; everything else is real. */
export type Parts = {
  clock: Clock
  fetch: typeof fetch
  createNode(
    config: Config,
    secrets: Secrets,
    ports: { logger: Logger; waitForLedger?: WaitForLedger },
  ): Promise<OwnNode>
  connect(url: string, token: string | undefined): Promise<RemoteNode>
}

/** The real parts. Each loads on first use, so that `stoa --help` stays fast. */
export const systemParts: Parts = {
  clock: systemClock,
  fetch: (input, init) => fetch(input, init),
  createNode: async (config, secrets, ports) =>
    (await import('../node/create-node.ts')).createNode(config, secrets, ports),
  connect: async (url, token) => {
    const { createApiClient } = await import('../http/client/client.ts')
    return createApiClient({ baseUrl: url, token }, { fetch: patientFetch })
  },
}
