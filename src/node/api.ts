import type { AgentFunction } from '../agents/function-agent.ts'
import type { ExecuteRequest } from '../buying/execute.ts'
import type { OrdersApi } from '../buying/orders.ts'
import type { WorkflowsApi } from '../buying/workflow/workflows.ts'
import type { LedgerApi } from '../ledger/ledger.ts'
import type { NodeFeed } from '../ledger/ledger-events.ts'
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
import type { OperateAgents } from '../selling/agent-admin.ts'
import type { ReputationCalls } from '../trust/reputation.ts'
import type { Search } from './market.ts'

/** What a test may replace. Everything else is built from configuration. */
export type Ports = {
  clock: Clock
  fetch: typeof fetch
  logger: Logger
  /** Instead of the one at `facilitatorUrl`. */
  facilitator: Facilitator
  randomBytes(length: number): Uint8Array
}

/** A marketplace node: it sells the agents registered on it and buys from others. */
export interface StoaNode {
  readonly peerId: string
  readonly did: string
  readonly walletAddress: Hex
  /** Where the HTTP API answers; undefined where it is switched off. Known once started. */
  readonly apiUrl: string | undefined
  start(): Promise<void>
  /** Delists, lets running work end or hands it over, and closes everything, within 5 s. */
  stop(): Promise<void>
  addresses(): string[]
  listings(): Listing[]
  /** The market, searched. */
  readonly market: Search
  /**
   * Puts an agent on the market. It is kept in agents.yaml unless told otherwise, or `run` is what it runs: a function lasts as
   * long as the process.
   */
  registerAgent(
    definition: AgentDefinition,
    options?: { persist?: boolean; run?: AgentFunction | undefined },
  ): Promise<Listing>
  execute(request: ExecuteRequest): Promise<ExecutionResult>
  /** The agents of this node, for whoever runs it. */
  readonly ownAgents: OperateAgents
  /** Payments received and made, and what own agents did. */
  readonly ledger: LedgerApi
  /** What has been earned, spent and done, summed up. */
  stats(options: { days: number }): Promise<Stats>
  /** Purchases in the background, and the ledger of all (D18). */
  readonly orders: OrdersApi
  /** What was paid for, signed by whoever was paid. */
  readonly receipts: Receipts
  /** What the chain says of agents, and what this node says of them there (ERC-8004). */
  readonly reputation: ReputationCalls
  /** What callers and agents said to each other (D19). */
  readonly sessions: Sessions
  /** Several agents, step by step (D20). */
  readonly workflows: WorkflowsApi
  /** What happens here, while it happens. */
  readonly events: Pick<NodeFeed, 'subscribe' | 'last'>
  status(): NodeStatus
  peers(): PeerStatus[]
  balance(): Promise<WalletBalance>
}
