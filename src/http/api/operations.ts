import { type OpenApi, openApiDocument } from './openapi.ts'
import type { Operation } from './operation.ts'
import { type AgentRouteDeps, agentRoutes } from './routes/agents.ts'
import { type AlarmRouteDeps, alarmRoutes } from './routes/alarms.ts'
import { type BudgetRouteDeps, budgetRoutes } from './routes/budget.ts'
import { type DiscoveryRouteDeps, discoveryRoutes } from './routes/discovery.ts'
import { docsRoutes } from './routes/docs.ts'
import { type EventRouteDeps, eventRoutes } from './routes/events.ts'
import { type ExecuteRouteDeps, executeRoutes } from './routes/execute.ts'
import { type ImportRouteDeps, importRoutes } from './routes/imports.ts'
import { type LedgerRouteDeps, ledgerRoutes } from './routes/ledger.ts'
import { type MetricsRouteDeps, metricsRoutes } from './routes/metrics.ts'
import { type NodeRouteDeps, nodeRoutes } from './routes/node.ts'
import { type OrderRouteDeps, orderRoutes } from './routes/orders.ts'
import { type OwnAgentRouteDeps, ownAgentRoutes } from './routes/own-agents.ts'
import { type ReceiptRouteDeps, receiptRoutes } from './routes/receipts.ts'
import { type ReputationRouteDeps, reputationRoutes } from './routes/reputation.ts'
import { type SessionRouteDeps, sessionRoutes } from './routes/sessions.ts'
import { type TokenRouteDeps, tokenRoutes } from './routes/tokens.ts'
import { type TransactionRouteDeps, transactionRoutes } from './routes/transactions.ts'
import { type WalletRouteDeps, walletRoutes } from './routes/wallet.ts'
import { type WebhookRouteDeps, webhookRoutes } from './routes/webhooks.ts'
import { type WorkflowRouteDeps, workflowRoutes } from './routes/workflows.ts'

export type OperationsDeps = NodeRouteDeps &
  AgentRouteDeps &
  OwnAgentRouteDeps &
  ImportRouteDeps &
  ExecuteRouteDeps &
  OrderRouteDeps &
  SessionRouteDeps &
  WorkflowRouteDeps &
  ReceiptRouteDeps &
  ReputationRouteDeps &
  TransactionRouteDeps &
  TokenRouteDeps &
  BudgetRouteDeps &
  WalletRouteDeps &
  EventRouteDeps &
  MetricsRouteDeps &
  AlarmRouteDeps &
  WebhookRouteDeps &
  LedgerRouteDeps &
  DiscoveryRouteDeps & { /** The node's version. */ version: string }

/** The whole API as a table. Each group of routes is one line. */
export function apiOperations(deps: OperationsDeps): Operation[] {
  let document: OpenApi | undefined
  const rows: Operation[] = [
    ...nodeRoutes(deps),
    ...agentRoutes(deps),
    ...ownAgentRoutes(deps),
    ...importRoutes(deps),
    ...executeRoutes(deps),
    ...orderRoutes(deps),
    ...sessionRoutes(deps),
    ...workflowRoutes(deps),
    ...receiptRoutes(deps),
    ...reputationRoutes(deps),
    ...transactionRoutes(deps),
    ...walletRoutes(deps),
    ...eventRoutes(deps),
    ...metricsRoutes(deps),
    ...alarmRoutes(deps),
    ...webhookRoutes(deps),
    ...ledgerRoutes(deps),
    ...tokenRoutes(deps),
    ...budgetRoutes(deps),
    ...discoveryRoutes(deps),
    ...docsRoutes({
      document() {
        document ??= openApiDocument(rows, deps.version)
        return document
      },
    }),
  ]
  return rows
}
