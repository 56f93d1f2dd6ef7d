import type { AgentFunction } from '../agents/function-agent.ts'
import type { ChannelOperations } from '../buying/channels/channel-operations.ts'
import type { ExecuteRequest } from '../buying/execute.ts'
import type { OrdersApi } from '../buying/orders.ts'
import type { UrlPurchase } from '../buying/web/buy-url.ts'
import type { WorkflowsApi } from '../buying/workflow/workflows.ts'
import type { ChannelsApi } from '../ledger/channels-api.ts'
import type { LedgerApi } from '../ledger/ledger-api.ts'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import type { Receipts } from '../ledger/receipts.ts'
import type { Sessions } from '../ledger/sessions.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { Facilitator } from '../payments/facilitator.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import type { ExecutionResult, NodeStatus, PeerStatus, WalletBalance } from '../schema/api.ts'
import type { Stats } from '../schema/ledger.ts'
import type { Listing } from '../schema/listing.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Search } from '../search/search.ts'
import type { OperateAgents } from '../selling/agent-admin.ts'
import type { Sources } from '../sources/sources.ts'
import type { WaitForLedger } from '../store/server-ledger.ts'
import type { ReputationCalls } from '../trust/reputation.ts'

/** Parts that a test or an embedder may give. Everything else is built from the configuration. */
export type Ports = {
  clock: Clock
  fetch: typeof fetch
  logger: Logger
  /** Replaces the facilitator at `facilitatorUrl`. */
  facilitator: Facilitator
  randomBytes(length: number): Uint8Array
  /** If another process has the ledger in PostgreSQL alone, waits until that one is gone. Without it, the node fails. */
  waitForLedger: WaitForLedger
}

/** A marketplace node. It sells the agents registered on it and buys from other nodes. */
export interface StoaNode {
  readonly peerId: string
  readonly did: string
  readonly walletAddress: Hex
  /** URL of the HTTP API. Undefined before the start and if the API is switched off. */
  readonly apiUrl: string | undefined
  /** Where strangers buy agents of this node over HTTP. Undefined: `public.port` is not set. */
  readonly publicUrl: string | undefined
  /** Aborts if other processes have taken over the work of this one. The reason says so. The node then stops. */
  readonly lost: AbortSignal
  start(): Promise<void>
  /** Delists its agents, lets running tasks finish for 2 s, cancels the others, and closes everything within 5 s. */
  stop(): Promise<void>
  addresses(): string[]
  listings(): Listing[]
  readonly market: Search
  /** Catalogs of x402 resources, apart from the market. */
  readonly sources: Pick<Sources, 'list' | 'test' | 'search' | 'probe'>
  /**
   * Lists an agent on the market and stores it in agents.yaml, unless `persist` is false. An agent that runs the
   * function `run` is not stored: it lasts as long as the process. With `persist: false`, `stored` says that the agent is
   * in agents.yaml already, so that `ownAgents.reload` follows its entry.
   *
   * @throws CodedError 'INVALID_REQUEST' for a paused agent: `ownAgents.keep` hosts one
   */
  registerAgent(
    definition: AgentDefinition,
    options?: { persist?: boolean; stored?: boolean; run?: AgentFunction | undefined },
  ): Promise<Listing>
  execute(request: ExecuteRequest): Promise<ExecutionResult>
  /** Buys from an x402 seller over HTTP. The price limit is `maxPriceAtomic`, and that of the node. */
  buyUrl(request: UrlPurchase): Promise<ExecutionResult>
  /** The agents of this node, for the operator. */
  readonly ownAgents: OperateAgents
  /** Payments received and made, and the executions of own agents. */
  readonly ledger: LedgerApi
  /** Sums of what was earned, spent and executed. */
  stats(options: { days: number }): Promise<Stats>
  /** Orders: background purchases, and the ledger of all purchases (D18). */
  readonly orders: OrdersApi
  /** Payment channels: those by which this node pays, and those by which it is paid. */
  readonly channels: ChannelsApi & ChannelOperations
  /** Signed receipts for payments. */
  readonly receipts: Receipts
  /** Ratings of agents on the chain, and this node's own ratings (ERC-8004). */
  readonly reputation: ReputationCalls
  /** The exchanges between callers and agents (D19). */
  readonly sessions: Sessions
  /** Workflows: several agents, step by step (D20). */
  readonly workflows: WorkflowsApi
  readonly events: Pick<NodeFeed, 'subscribe' | 'last'>
  status(): Promise<NodeStatus>
  peers(): PeerStatus[]
  balance(): Promise<WalletBalance>
}
