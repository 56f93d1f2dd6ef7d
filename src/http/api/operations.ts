import type { Buyer } from '../../buying/buyer.ts'
import type { ChannelOperations } from '../../buying/channels/channel-operations.ts'
import type { OrdersApi } from '../../buying/orders.ts'
import type { Tokens } from '../../buying/tokens.ts'
import type { WorkflowsApi } from '../../buying/workflow/workflows.ts'
import type { ChannelsApi } from '../../ledger/channels-api.ts'
import type { LedgerApi } from '../../ledger/ledger-api.ts'
import type { NodeFeed } from '../../ledger/ledger-feed.ts'
import type { Receipts } from '../../ledger/receipts.ts'
import type { Sessions } from '../../ledger/sessions.ts'
import type { Earnings } from '../../ledger/stats.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Transfers } from '../../payments/transfers.ts'
import type { Search } from '../../search/search.ts'
import type { ReputationCalls } from '../../trust/reputation.ts'
import type { WorkerRoll } from '../../workers/worker-roll.ts'
import type { MetricSources } from './metric-family.ts'
import { type OpenApi, openApiDocument } from './openapi.ts'
import type { Operation } from './operation.ts'
import { agentRoutes } from './routes/agents.ts'
import { type AlarmsPart, alarmRoutes } from './routes/alarms.ts'
import { type ApprovalsPart, type BudgetPart, budgetRoutes } from './routes/budget.ts'
import { channelRoutes } from './routes/channels.ts'
import { type CardsPart, discoveryRoutes } from './routes/discovery.ts'
import { docsRoutes } from './routes/docs.ts'
import { eventRoutes } from './routes/events.ts'
import { executeRoutes } from './routes/execute.ts'
import { type ImportsPart, importRoutes } from './routes/imports.ts'
import { ledgerRoutes } from './routes/ledger.ts'
import { metricsRoutes } from './routes/metrics.ts'
import { type NodePart, nodeRoutes } from './routes/node.ts'
import { orderRoutes } from './routes/orders.ts'
import { type OwnAgentsPart, ownAgentRoutes } from './routes/own-agents.ts'
import { receiptRoutes } from './routes/receipts.ts'
import { reputationRoutes } from './routes/reputation.ts'
import { sessionRoutes } from './routes/sessions.ts'
import { type SourcesPart, sourceRoutes } from './routes/sources.ts'
import { tokenRoutes } from './routes/tokens.ts'
import { transactionRoutes } from './routes/transactions.ts'
import { walletRoutes } from './routes/wallet.ts'
import { type WebhooksPart, webhookRoutes } from './routes/webhooks.ts'
import { workerRoutes } from './routes/workers.ts'
import { workflowRoutes } from './routes/workflows.ts'
import { whileStarting } from './while-starting.ts'

/** What the API serves: the parts of a node, as the rooms below make them. */
export type ApiParts = {
  node: NodePart
  market: Pick<Search, 'page' | 'find'>
  sources: SourcesPart
  ownAgents: OwnAgentsPart
  workers: Pick<WorkerRoll, 'invite' | 'list' | 'revoke'>
  imports: ImportsPart
  buyer: Pick<Buyer, 'execute' | 'buyUrl'> & {
    orders: OrdersApi
    sessions: Sessions
    workflows: WorkflowsApi
    tokens: Pick<Tokens, 'create' | 'list' | 'revoke' | 'identify'>
    budget: BudgetPart
    approvals: ApprovalsPart
    channelOperations: ChannelOperations
  }
  ledger: LedgerApi
  channels: ChannelsApi
  earnings: Earnings
  receipts: Receipts
  reputation: ReputationCalls
  transfers: Transfers
  events: Pick<NodeFeed, 'last' | 'subscribe'>
  metrics: MetricSources
  alarms: AlarmsPart
  webhooks: WebhooksPart
  cards: CardsPart
  /** True while the start has still to host agents. */
  isStarting(): boolean
  logger: Logger
  version: string
}

/** The whole API as a table. Each group of routes is one line. */
export function apiOperations(parts: ApiParts): Operation[] {
  const { node, market, ownAgents, buyer, ledger, reputation, logger } = parts
  const { orders, sessions, workflows, tokens, budget, approvals } = buyer
  const ofAgents = (group: readonly Operation[]) => whileStarting(group, parts.isStarting)
  let document: OpenApi | undefined
  const rows: Operation[] = [
    ...nodeRoutes(node),
    ...ofAgents(agentRoutes(market, ownAgents)),
    ...sourceRoutes(parts.sources),
    ...ofAgents(ownAgentRoutes(ownAgents)),
    ...workerRoutes(parts.workers),
    ...importRoutes(parts.imports),
    ...ofAgents(executeRoutes(buyer, logger)),
    ...orderRoutes(orders),
    ...ofAgents(sessionRoutes(sessions)),
    ...workflowRoutes(workflows),
    ...receiptRoutes(parts.receipts),
    ...ofAgents(reputationRoutes(reputation)),
    ...transactionRoutes(reputation.transactions),
    ...walletRoutes(node, parts.transfers),
    ...eventRoutes(parts.events, { orders, workflows, ledger }, logger),
    ...metricsRoutes(parts.metrics),
    ...alarmRoutes(parts.alarms),
    ...webhookRoutes(parts.webhooks),
    ...ledgerRoutes(ledger, parts.earnings),
    ...ofAgents(channelRoutes(parts.channels, buyer.channelOperations)),
    ...tokenRoutes(tokens),
    ...budgetRoutes(budget, approvals),
    ...discoveryRoutes(parts.cards),
    ...docsRoutes({
      document() {
        document ??= openApiDocument(rows, parts.version)
        return document
      },
    }),
  ]
  return rows
}
