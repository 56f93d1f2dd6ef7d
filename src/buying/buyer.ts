import { randomUUID } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { agentId } from '../agents/agent-id.ts'
import type { AgentPurchases } from '../agents/agent-purchase.ts'
import type { Chain } from '../chain/chain.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { createSessions, type Sessions } from '../ledger/sessions.ts'
import type { Trading } from '../ledger/trading.ts'
import { withUnstoredEnds } from '../ledger/unstored-ends.ts'
import { Changes } from '../lib/changes.ts'
import { type Clock, isoTime } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { risingUuid } from '../lib/rising-uuid.ts'
import { within } from '../lib/wait.ts'
import type { Catalog } from '../listings/catalog.ts'
import { NodeStopping } from '../listings/market-error.ts'
import type { Replica } from '../listings/replica.ts'
import type { Asset } from '../payments/assets.ts'
import type { PaymentChain } from '../payments/chain-verdict.ts'
import type { Wallet } from '../payments/wallet.ts'
import { type StreamPeer, StreamPool } from '../protocols/streams.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { PaymentRequirements } from '../schema/payment.ts'
import type { QuoteOutput } from '../schema/tools.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import { createApprovalStore } from '../store/approvals.ts'
import type { Database } from '../store/database.ts'
import { createIdempotencyKeys, type IdempotencyKeys } from '../store/idempotency.ts'
import type { RunTime } from '../store/run-time.ts'
import { createSessionStore } from '../store/sessions.ts'
import { spending } from '../store/spending.ts'
import { createTokenStore } from '../store/tokens.ts'
import { createWorkflowStore } from '../store/workflows.ts'
import { type Measures, measuring } from '../trust/measures.ts'
import { createAgentPurchases } from './agent-purchases.ts'
import { type Approvals, createApprovals } from './approvals.ts'
import { type Budget, createBudget } from './budget.ts'
import { type BudgetRules, createRulesStore } from './budget-rules.ts'
import { type ExecuteDeps, type ExecuteRequest, execute } from './execute.ts'
import { executeAgain } from './execute-again.ts'
import { Orders } from './orders.ts'
import { askPrice, quote } from './quote.ts'
import { Recovery } from './recovery.ts'
import { type ActiveOrders, type RunOrderDeps, runOrder } from './run-order.ts'
import { createTokens, type Tokens } from './tokens.ts'
import type { WalletFunds } from './wallet-funds.ts'
import { Workflows } from './workflow/workflows.ts'

/** Time that running executions have to record their state when the node stops. */
const EXECUTIONS_END_MS = 1_000

type BuyerOptions = {
  callerDid: string
  /** The peer id of the node whose own agents buy. */
  sellerId: string
  rules: BudgetRules
  /** Time the operator has to approve a purchase, in ms. */
  approvalMs: number
  /** Longest payment window that this node signs. Undefined: the default. */
  maxWindowSeconds?: number | undefined
  /** True if this node may pay a seller that settles before its agent runs. */
  allowSettleFirst?: boolean | undefined
}

export type BuyerDeps = {
  clock: Clock
  logger: Logger
  database: Database
  runTime: RunTime
  trading: Pick<Trading, 'check'>
  feed: NodeFeed
  ledger: Pick<Ledger, 'purchases' | 'orders' | 'listen'>
  wallet: Wallet
  asset: Asset
  catalog: Pick<Catalog, 'resolve' | 'resourceOf'>
  replica: Pick<Replica, 'onChange'>
  chain: (PaymentChain & Partial<Pick<Chain, 'hasMoved'>>) | undefined
  funds?: WalletFunds | undefined
  openStream(peer: StreamPeer, protocol: string, signal: AbortSignal): Promise<Stream>
  /** True if a stream uses a relay although a direct connection now exists. */
  superseded?(stream: Stream): boolean
  runOwn: RunOrderDeps['runOwn']
  random(length: number): Uint8Array
  measures: Pick<Measures, 'ended' | 'settled'>
}

/** The part of a node that buys: calls, orders in the background, and recovery after a crash. */
export type Buyer = {
  execute(request: ExecuteRequest): Promise<ExecutionResult>
  agentPurchases: AgentPurchases
  /** Returns the current price of one task. Pays nothing. */
  quote(agentId: string, signal: AbortSignal): Promise<QuoteOutput>
  /** Checks again what became of an order's payment. */
  look(orderId: string): Promise<void>
  /** True if an order has its result. */
  isReceived(orderId: string): boolean
  /** Asks a seller for its payment requirements. Pays nothing. */
  askPrice(seller: StreamPeer, resource: string, signal: AbortSignal): Promise<PaymentRequirements>
  readonly orders: Orders
  readonly sessions: Sessions
  readonly workflows: Workflows
  readonly tokens: Tokens
  readonly budget: Budget
  readonly approvals: Approvals
  /** The token that placed an order. */
  ownerOf(orderId: string): string | undefined
  readonly keys: Pick<IdempotencyKeys, 'purge'>
  readonly streams: StreamPool
  /** In start order. */
  readonly services: readonly Service[]
}

export function createBuyer(options: BuyerOptions, deps: BuyerDeps): Buyer {
  const { clock, logger, database, ledger, feed, catalog, replica, openStream } = deps
  const { callerDid, rules } = options
  const changes = new Changes()
  const changed = (orderId: string) => changes.tell(orderId)
  const unstored = withUnstoredEnds(ledger.purchases, { logger, changed })
  const { purchases } = unstored
  const sums = spending(database)
  const tokens = createTokens({
    clock,
    store: createTokenStore(database),
    random: deps.random,
    spentBy: (id, now) => ({ total: sums.byToken(id), today: sums.byToken(id, isoTime(now).slice(0, 10)) }),
  })
  const approvalStore = createApprovalStore(database)
  const keys = createIdempotencyKeys(database, deps.runTime)
  const budget = createBudget(rules, {
    clock,
    asset: deps.asset,
    store: createRulesStore(database),
    purchases,
    token: (id) => tokens.held(id),
    approvedFor: approvalStore.approvedFor,
    changed: () => feed.publish('budget', 'budget', () => budget.view()),
  })
  const superseded = (stream: Stream) => deps.superseded?.(stream) === true
  const streams = new StreamPool({ protocol: X402_PROTOCOL }, { open: openStream, superseded })
  const active: ActiveOrders = new Map()
  ledger.listen(measuring(deps.measures, purchases, (orderId) => active.has(orderId)))
  const shared = { clock, logger, purchases, streams, callerDid, active, changed }

  const recovery = new Recovery({
    ...shared,
    addrsOf: (agentId) => catalog.resolve(agentId)?.addrs ?? [],
    resourceOf: catalog.resourceOf,
    network: deps.asset.network,
    chain: deps.chain,
  })
  const running: RunOrderDeps = {
    ...shared,
    recovery,
    wallet: deps.wallet,
    runOwn: deps.runOwn,
    mayRunUnpaid: (tokenId) => tokens.held(tokenId)?.scope === 'admin',
    openStream,
    budget,
    funds: deps.funds,
    checkTrading: deps.trading.check,
    maxWindowSeconds: options.maxWindowSeconds,
    allowSettleFirst: options.allowSettleFirst,
  }
  /** Read at each call, because the rules may change while the node runs. */
  const ids = { newId: () => risingUuid(clock.now(), deps.random), newCorrelationId: randomUUID }
  const priced = { catalog, ...ids, maxPrice: budget.perCall }
  const approvals = createApprovals(
    { limitMs: options.approvalMs },
    {
      ...{ clock, logger, newId: randomUUID, store: approvalStore, purchases, budget },
      token: tokens.record,
      published({ id, orderId }) {
        feed.publish('approval', id, () => approvals.get(id))
        feed.publish('order', orderId, () => orders.get(orderId))
      },
      decided: (orderId, verdict) => (verdict === 'approved' ? orders.enqueue(orderId) : changes.tell(orderId)),
    },
  )
  const orders = new Orders({
    clock,
    logger,
    ...priced,
    hold: approvals.hold,
    store: ledger.orders,
    purchases,
    onListing: (listener) => replica.onChange(listener),
    run: (order, listing, signal) => runOrder(order, listing, { signal }, running),
    keys,
    active,
    changes,
    look: (orderId) => recovery.look(orderId),
  })
  const flights: ExecuteDeps['flights'] = new Map()
  const executing: ExecuteDeps = {
    ...{ ...running, ...priced, hold: approvals.hold, keys, changes, flights },
    place: (order, request) => orders.place(order, { request, kind: 'execute' }),
    approval: approvalStore.get,
    look: (orderId) => recovery.look(orderId),
  }
  const agentPurchases = createAgentPurchases({
    ...{ clock, catalog, purchases, changes },
    ownId: (name) => agentId(options.sellerId, name),
    execute: (request) => execute(request, executing),
    again: (orderId, waiting) => executeAgain(orderId, waiting, executing),
    look: (orderId) => recovery.look(orderId),
    cancel: (orderId) => orders.cancel(orderId),
  })
  const sessions = createSessions({
    store: createSessionStore(database),
    purchases,
    isKnown: (agentId) => catalog.resolve(agentId) !== undefined,
  })

  const workflowChanges = new Changes()
  workflowChanges.listen((id) => feed.publish('workflow', id, () => workflows.get(id)))
  const workflows = new Workflows({
    clock,
    logger,
    newId: randomUUID,
    store: createWorkflowStore(database),
    purchases,
    chain: deps.chain,
    orders,
    orderChanges: changes,
    changes: workflowChanges,
    keys,
    resolve: (agentId) => catalog.resolve(agentId),
    maxPrice: budget.perCall,
  })

  /** When the node stops, waiting callers get an error. The recovery takes up signed orders at the next start. */
  const waiting: Service = {
    name: 'executions',
    start: async () => {},
    async stop() {
      for (const callOff of active.values()) callOff(new NodeStopping())
      await within(EXECUTIONS_END_MS, Promise.allSettled([...flights.values()].map(({ result }) => result)))
    },
  }

  return {
    execute: (request) => execute(request, executing),
    agentPurchases,
    quote: (agentId, signal) => quote(agentId, { ...shared, ...ids, catalog, budget, ...options }, signal),
    look: (orderId) => recovery.look(orderId),
    ownerOf: (orderId) => purchases.order(orderId)?.tokenId,
    isReceived: (orderId) => purchases.order(orderId)?.status === 'completed',
    askPrice: (seller, resource, signal) =>
      askPrice(seller, { resource, callerDid, correlationId: randomUUID() }, streams, signal),
    orders,
    sessions,
    workflows,
    tokens,
    budget,
    approvals,
    keys,
    streams,
    services: [unstored.service, recovery, approvals, orders, workflows, waiting],
  }
}
