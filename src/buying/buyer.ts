import { randomUUID } from 'node:crypto'
import type { Stream } from '@libp2p/interface'
import { agentId } from '../agents/agent-id.ts'
import type { AgentPurchases } from '../agents/agent-purchase.ts'
import type { ChannelReader } from '../chain/batch-settlement.ts'
import type { Chain } from '../chain/chain.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { createSessions, type Sessions } from '../ledger/sessions.ts'
import type { Tail } from '../ledger/tail.ts'
import type { Trading } from '../ledger/trading.ts'
import { withUnstoredEnds } from '../ledger/unstored-ends.ts'
import { Changes } from '../lib/changes.ts'
import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { pooledBytes } from '../lib/pooled-bytes.ts'
import { risingUuid } from '../lib/rising-uuid.ts'
import type { Catalog } from '../listings/catalog.ts'
import type { Replica } from '../listings/replica.ts'
import type { Host } from '../p2p/host.ts'
import type { Asset } from '../payments/assets.ts'
import type { PaymentChain } from '../payments/chain-verdict.ts'
import type { Sender } from '../payments/sender.ts'
import type { Wallet } from '../payments/wallet.ts'
import { type StreamPeer, StreamPool } from '../protocols/streams.ts'
import type { ExecutionResult } from '../schema/api.ts'
import type { PaymentRequirements } from '../schema/payment.ts'
import type { QuoteOutput } from '../schema/tools.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'
import { createApprovalStore } from '../store/approvals.ts'
import { createIdempotencyKeys, type IdempotencyKeys } from '../store/idempotency.ts'
import type { LedgerDatabase } from '../store/ledger-database.ts'
import { createPayees } from '../store/payees.ts'
import type { Purchases } from '../store/purchases.ts'
import type { RunTime } from '../store/run-time.ts'
import { createSessionStore } from '../store/sessions.ts'
import { createStoredRules } from '../store/stored-rules.ts'
import { createTokenStore } from '../store/tokens.ts'
import { createWorkflowStore } from '../store/workflows.ts'
import { type Measures, measuring } from '../trust/measures.ts'
import { createAgentPurchases } from './agent-purchases.ts'
import { type Approvals, createApprovals } from './approvals.ts'
import { type Budget, createBudget } from './budget.ts'
import { type BudgetRules, createRulesStore, type StoredRules } from './budget-rules.ts'
import type { ChannelOperations } from './channels/channel-operations.ts'
import { channelsOf } from './channels/channels-of.ts'
import type { ChannelOptions } from './channels/offer.ts'
import { type ExecuteDeps, type ExecuteRequest, execute } from './execute.ts'
import { executeAgain, type Waiting } from './execute-again.ts'
import { executions } from './executions.ts'
import type { Flights } from './flights.ts'
import { followOthers } from './follow-others.ts'
import { Orders } from './orders.ts'
import { askPrice, quote } from './quote.ts'
import { Recovery } from './recovery.ts'
import type { ActiveOrders, RunOrderDeps } from './run-order.ts'
import { createSendGate } from './send-gate.ts'
import { createTokens, type Tokens } from './tokens.ts'
import type { WalletFunds } from './wallet-checks.ts'
import { type BuyUrlDeps, buyUrl, type UrlPurchase } from './web/buy-url.ts'
import { WebSellers } from './web/web-sellers.ts'
import { Workflows } from './workflow/workflows.ts'

type BuyerOptions = {
  callerDid: string
  /** The peer id of the node whose own agents buy. */
  sellerId: string
  rules: BudgetRules
  /** What `createRulesStore` has of earlier processes. */
  storedRules?: StoredRules
  approvalMinutes: number
  /** Longest payment window that this node signs. Undefined: the default. */
  maxWindowSeconds?: number | undefined
  /** True if this node may pay a seller that settles before its agent runs. */
  allowSettleFirst?: boolean | undefined
  /** True if results of purchases wait for their settlement. Default: false (D46). */
  awaitsSettlement?: boolean | undefined
  /** Default: this node uses no payment channels. */
  channels?: ChannelOptions | undefined
  /** Origins of own networks from which may be bought. Default: none. */
  privateOrigins?: readonly string[] | undefined
}

export type BuyerDeps = {
  clock: Clock
  logger: Logger
  database: LedgerDatabase
  runTime: RunTime
  trading: Pick<Trading, 'check'>
  feed: NodeFeed
  ledger: Pick<Ledger, 'purchases' | 'orders' | 'listen'>
  /** What other processes change in a shared ledger. */
  tail?: Pick<Tail, 'listen'>
  wallet: Wallet
  asset: Asset
  catalog: Pick<Catalog, 'resolve' | 'resourceOf' | 'discovered'>
  replica: Pick<Replica, 'onChange'>
  chain: (PaymentChain & Partial<Pick<Chain, 'hasMoved'>>) | undefined
  funds?: WalletFunds | undefined
  /** Reads the contract of payment channels. Undefined: no RPC is configured. */
  channelReader?: ChannelReader | undefined
  /** By which channels of a lost ledger are found. */
  chainLog?: Pick<Chain, 'request'> | undefined
  /** The only sender of this account. @throws CodedError CHAIN_UNAVAILABLE */
  sender(): Promise<Pick<Sender, 'send'>>
  openStream: Host['openStream']
  /** True if a stream uses a relay although a direct connection now exists. */
  superseded?(stream: Stream): boolean
  runOwn: RunOrderDeps['runOwn']
  /** True while an agent of this node is not on the market only because the node starts or stops. */
  isAway?(agentId: string): boolean
  random(length: number): Uint8Array
  measures: Pick<Measures, 'ended' | 'settled'> & Partial<Pick<Measures, 'counts'>>
}

export type Buyer = {
  execute(request: ExecuteRequest): Promise<ExecutionResult>
  /** Buys from an x402 seller over HTTP. */
  buyUrl(request: UrlPurchase): Promise<ExecutionResult>
  /** Waits for the outcome of an order, or answers from the ledger. Buys nothing. */
  again(orderId: string, waiting: Waiting): Promise<ExecutionResult | 'given up'>
  agentPurchases: AgentPurchases
  /** Returns the current price of one task. Pays nothing. */
  quote(agentId: string, signal: AbortSignal): Promise<QuoteOutput>
  /** Checks again what became of an order's payment. */
  look(orderId: string): Promise<void>
  isReceived(orderId: string): Promise<boolean>
  /** Asks a seller for its payment requirements. Pays nothing. */
  askPrice(seller: StreamPeer, resource: string, signal: AbortSignal): Promise<PaymentRequirements>
  readonly orders: Orders
  readonly sessions: Sessions
  readonly workflows: Workflows
  readonly tokens: Tokens
  readonly budget: Budget
  readonly approvals: Approvals
  /** The token that placed an order. */
  ownerOf(orderId: string): Promise<string | undefined>
  readonly keys: Pick<IdempotencyKeys, 'purge' | 'last' | 'now'>
  readonly streams: StreamPool
  readonly channelOperations: ChannelOperations
  /** Goes on with the orders and workflows of processes that have ended. */
  takeOver(): Promise<void>
  /** In start order. */
  readonly services: readonly Service[]
}

export function createBuyer(options: BuyerOptions, deps: BuyerDeps): Buyer {
  const { clock, logger, database, ledger, feed, catalog, replica, trading, openStream } = deps
  const { callerDid, approvalMinutes, maxWindowSeconds, allowSettleFirst, awaitsSettlement } = options
  const changes = new Changes()
  const unstored = withUnstoredEnds(ledger.purchases, { logger, changed: (orderId) => changes.tell(orderId) })
  const { purchases } = unstored
  const superseded = (stream: Stream) => deps.superseded?.(stream) === true
  const streams = new StreamPool({ protocol: X402_PROTOCOL }, { open: openStream, superseded })
  const active: ActiveOrders = new Map()
  ledger.listen(measuring(deps.measures, { purchases, logger }, (orderId) => active.has(orderId)))
  const keys = createIdempotencyKeys(database, deps.runTime)
  const approvalStore = createApprovalStore(database)
  const { tokens, budget } = createSpending(options, { ...deps, purchases })
  const sendGate = createSendGate(database, logger)
  const web = new WebSellers({ asset: deps.asset, privateOrigins: options.privateOrigins ?? [] })
  const payees = createPayees(database)
  const shared = { clock, logger, purchases, streams, callerDid, sendGate, active, changes, catalog, keys, budget }

  const { channels, channelOperations } = channelsOf(options.channels, { ...shared, ...deps })
  const recovery = new Recovery({
    ...{ ...shared, web, channels },
    changed: (orderId) => changes.tell(orderId),
    workers: ledger.orders,
    addrsOf: (agentId) => catalog.resolve(agentId)?.addrs ?? [],
    resourceOf: catalog.resourceOf,
    network: deps.asset.network,
    chain: deps.chain,
  })
  const approvals = createApprovals(approvalMinutes, {
    ...{ clock, logger, newId: randomUUID, store: approvalStore, purchases, budget },
    token: tokens.record,
    published({ id, orderId }) {
      feed.publish('approval', id, () => approvals.get(id))
      feed.publish('order', orderId, () => orders.get(orderId))
    },
    decided: (orderId, verdict) => (verdict === 'approved' ? orders.enqueue(orderId) : changes.tell(orderId)),
  })
  const { wallet, funds, runOwn, isAway = () => false } = deps
  const running: RunOrderDeps & { web: WebSellers } = {
    ...shared,
    ...{ recovery, wallet, funds, trading, tokens, runOwn, openStream, maxWindowSeconds, allowSettleFirst },
    ...{ awaitsSettlement, channels, web },
  }
  const idBytes = pooledBytes(deps.random)
  const newId = () => risingUuid(clock.now(), idBytes)
  const orders = new Orders({
    ...{ ...shared, newId, store: ledger.orders, replica, recovery, approvals, running, payees, isAway },
  })
  const flights: Flights = new Map()
  const executing: ExecuteDeps & BuyUrlDeps = {
    ...{ ...running, ...shared, payees, recovery, newId, orders, approvals, approvalStore, flights },
    orderStore: ledger.orders,
    workerOf: ledger.orders.workerOf,
  }
  const agentPurchases = createAgentPurchases({
    ...shared,
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
  workflowChanges.listen((id, origin) => feed.publish('workflow', id, () => workflows.get(id), origin))
  const workflows = new Workflows({
    ...{ clock, logger, newId: randomUUID, purchases, chain: deps.chain, orders, keys },
    store: createWorkflowStore(database),
    orderChanges: changes,
    changes: workflowChanges,
    resolve: (agentId) => catalog.resolve(agentId),
    isAway,
    maxPrice: budget.perCall,
    web,
  })

  const parts = { orders, recovery, approvals, workflows, channels }
  const following = { ...shared, ...parts, feed, workflowChanges, store: ledger.orders }
  deps.tail?.listen(followOthers(following))

  return {
    execute: (request) => execute(request, executing),
    buyUrl: (request) => buyUrl(request, executing),
    again: (orderId, waiting) => executeAgain(orderId, waiting, executing),
    agentPurchases,
    quote: (agentId, signal) => quote(agentId, { ...shared, allowSettleFirst }, signal),
    look: (orderId) => recovery.look(orderId),
    ownerOf: async (orderId) => (await purchases.order(orderId))?.tokenId,
    isReceived: async (orderId) => (await purchases.order(orderId))?.status === 'completed',
    askPrice: (seller, resource, signal) =>
      askPrice(seller, { resource, callerDid, correlationId: randomUUID() }, streams, signal),
    ...{ orders, sessions, workflows, tokens, budget, approvals, keys, streams },
    channelOperations,
    async takeOver() {
      await recovery.takeOver()
      // The tail reports only changes of other processes, so check here what `takeOver` has ended.
      changes.checkAll()
      for (const order of await ledger.orders.pending()) orders.enqueue(order.id)
      await workflows.takeOver()
      workflowChanges.checkAll()
    },
    services: [
      unstored.service,
      recovery,
      ...channels.services,
      approvals,
      orders,
      workflows,
      executions(active, flights),
    ],
  }
}

/** What limits the spending: the operator's rules, and the tokens with their own budgets. */
function createSpending(
  { rules, storedRules = {} }: Pick<BuyerOptions, 'rules' | 'storedRules'>,
  deps: Pick<BuyerDeps, 'clock' | 'database' | 'random' | 'asset' | 'feed'> & {
    purchases: Purchases
  },
): { tokens: Tokens; budget: Budget } {
  const { clock, database, random, asset, feed, purchases } = deps
  const tokens = createTokens({ clock, store: createTokenStore(database), random })
  const budget = createBudget(rules, {
    clock,
    asset,
    store: createRulesStore(createStoredRules(database)),
    stored: storedRules,
    purchases,
    changed: () => feed.publish('budget', 'budget', () => budget.view()),
  })
  return { tokens, budget }
}
