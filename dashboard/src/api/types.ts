/** The API's answers in wire format. The types come from the node's own schemas and are erased at build. */
import type { input } from 'zod'
import type * as alarm from '../../../src/schema/alarm.ts'
import type * as api from '../../../src/schema/api.ts'
import type * as approval from '../../../src/schema/approval.ts'
import type * as book from '../../../src/schema/book.ts'
import type * as budget from '../../../src/schema/budget.ts'
import type * as channel from '../../../src/schema/channel-record.ts'
import type * as configuration from '../../../src/schema/configuration.ts'
import type * as door from '../../../src/schema/doors.ts'
import type * as execution from '../../../src/schema/execution-payment.ts'
import type * as fleet from '../../../src/schema/fleet.ts'
import type * as ledger from '../../../src/schema/ledger.ts'
import type * as listing from '../../../src/schema/listing.ts'
import type * as order from '../../../src/schema/order.ts'
import type * as own from '../../../src/schema/own-agent.ts'
import type * as payment from '../../../src/schema/payment-record.ts'
import type * as receipt from '../../../src/schema/receipt-record.ts'
import type * as session from '../../../src/schema/session.ts'
import type * as source from '../../../src/schema/source.ts'
import type * as token from '../../../src/schema/token.ts'
import type * as webhook from '../../../src/schema/webhook.ts'
import type * as worker from '../../../src/schema/worker.ts'
import type * as workflow from '../../../src/schema/workflow.ts'
import type * as x402 from '../../../src/schema/x402.ts'

export type Problem = input<typeof api.Problem>
export type PeerStatus = input<typeof api.PeerStatus>
export type WalletBalance = input<typeof api.WalletBalance>
export type ExecutionPayment = input<typeof execution.ExecutionPayment>
export type PeerErrors = typeof x402.x402Errors
export type Book = input<typeof book.Book>
export type CallError = input<typeof order.CallError>
export type RecordedPayment = input<typeof order.RecordedPayment>
export type OrderRecord = input<typeof order.OrderRecord>
export type SessionRecord = input<typeof session.SessionRecord>
export type WorkflowRecord = input<typeof workflow.WorkflowRecord>
export type WorkflowStep = input<typeof workflow.WorkflowStep>
export type WorkflowQuote = input<typeof workflow.WorkflowQuote>
export type NewWorkflow = input<typeof workflow.CreateWorkflow>
export type NewAgent = input<typeof api.RegisterAgent>

export type Listing = input<typeof listing.Listing>
export type NodeStatus = input<typeof api.NodeStatus>
export type Doors = input<typeof door.Doors>
export type DoorTests = input<typeof door.DoorTests>
export type Reachability = NodeStatus['reachability']
export type PaymentRecord = input<typeof payment.PaymentRecord>
export type Stats = input<typeof ledger.Stats>
export type AgentStats = Stats['agents'][number]
export type Execution = input<typeof ledger.ExecutionRecord>
export type OwnAgent = input<typeof own.OwnAgent>
export type AgentChanges = input<typeof own.UpdateAgent>
export type AvailableModels = input<typeof own.AvailableModels>
export type TestResult = input<typeof own.TestResult>
export type ReceiptRecord = input<typeof receipt.ReceiptRecord>

export type Channel = input<typeof channel.ChannelRecord>
export type ChannelSums = input<typeof channel.ChannelSums>

export type Fleet = input<typeof fleet.Fleet>
export type FleetProcess = Fleet['processes'][number]
export type Worker = input<typeof worker.WorkerRecord>

export type Configuration = input<typeof configuration.Configuration>
export type Setting = Configuration['settings'][number]
export type Alarm = input<typeof alarm.AlarmRecord>
export type Approval = input<typeof approval.ApprovalRecord>
export type Budget = input<typeof budget.BudgetRecord>
export type CatalogSource = input<typeof source.Source>
export type CatalogEntry = input<typeof source.SourceEntry>
export type CatalogSearch = input<typeof source.SourceResults>
export type Webhook = input<typeof webhook.Webhook>
export type WebhookTest = input<typeof webhook.WebhookTest>
export type ApiToken = input<typeof token.TokenRecord>
export type CreatedToken = input<typeof token.CreatedToken>
