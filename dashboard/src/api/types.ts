/** What the API answers, as it stands on the wire. The types come from the node's own schemas, erased at build. */
import type { input } from 'zod'
import type * as api from '../../../src/schema/api.ts'
import type * as listing from '../../../src/schema/listing.ts'
import type * as order from '../../../src/schema/order.ts'
import type * as session from '../../../src/schema/session.ts'
import type * as workflow from '../../../src/schema/workflow.ts'

export type Problem = input<typeof api.Problem>
export type PeerStatus = input<typeof api.PeerStatus>
export type WalletBalance = input<typeof api.WalletBalance>
export type ExecutionPayment = input<typeof api.ExecutionPayment>
export type CallError = input<typeof order.CallError>
export type RecordedPayment = input<typeof order.RecordedPayment>
export type OrderRecord = input<typeof order.OrderRecord>
export type SessionRecord = input<typeof session.SessionRecord>
export type WorkflowRecord = input<typeof workflow.WorkflowRecord>
export type WorkflowStep = input<typeof workflow.WorkflowStep>
export type WorkflowQuote = input<typeof workflow.WorkflowQuote>
export type NewWorkflow = input<typeof workflow.CreateWorkflow>
export type NewAgent = input<typeof api.RegisterAgent>

export type SellerStats = {
  calls: number
  success_rate: number | null
  p50_ms: number | null
  p95_ms: number | null
  last_seen: string | null
  settled_volume: string
  settled_volume_atomic: string
}
export type Reputation = { count: number; score: number | null; value?: string; decimals?: number }
/** With what only some nodes know of it. */
export type Listing = input<typeof listing.Listing> & {
  stats?: SellerStats
  reputation?: Reputation | null
  paused?: boolean
}

export type Reachability = {
  state: 'public' | 'relayed' | 'unreachable' | 'unknown'
  addresses?: string[]
  relays?: string[]
  reason?: string
  fix?: string
}
export type NodeStatus = Omit<input<typeof api.NodeStatus>, 'reachability'> & { reachability: Reachability | string }

export type PaymentRecord = {
  payment_id: string
  direction: 'in' | 'out'
  agent_id: string
  agent_name?: string
  peer_id: string
  amount: string
  amount_atomic: string
  network: string
  asset: string
  payer: string
  pay_to: string
  state: string
  tx_hash: string | null
  attempts?: number
  next_attempt_at?: string | null
  error?: string | null
  created_at: string
  updated_at: string
}

type Total = { today: string; today_atomic: string; total: string; total_atomic: string }
export type Stats = {
  earned: Total
  spent: Total
  days: {
    day: string
    earned: string
    earned_atomic: string
    spent: string
    spent_atomic: string
    executions: number
    failed: number
  }[]
  hours: { hour: string; executions: number; failed: number }[]
  agents: AgentStats[]
}
export type AgentStats = {
  agent_id: string
  name: string
  calls: number
  failed: number
  earned: string
  earned_atomic: string
  p50_ms: number | null
  p95_ms: number | null
}

/** What an own agent did for a caller. */
export type Execution = {
  id?: string
  execution_id?: string
  correlation_id?: string
  agent_id: string
  agent_name?: string
  caller_id?: string
  peer_id?: string
  status?: string
  input?: string | null
  output?: string | null
  error?: string | CallError | null
  payment_id?: string | null
  payment?: RecordedPayment | null
  amount?: string
  duration_ms?: number | null
  created_at: string
}

export type Approval = {
  id: string
  order_id: string | null
  agent_id: string
  agent_name: string
  seller_id: string
  amount: string
  amount_atomic: string
  reason: string
  status: 'pending' | 'approved' | 'denied' | 'expired'
  created_at: string
  expires_at: string
}

export type Budget = {
  network: string
  asset: string
  symbol: string
  per_call: string | null
  per_seller: string | null
  per_day: string | null
  per_month: string | null
  auto_approve_below: string | null
  spent_today: string
  spent_month: string
  left_today: string | null
  left_month: string | null
  allow: string[]
  deny: string[]
}

export type ApiToken = {
  id: string
  name?: string
  scopes?: string[]
  scope?: string
  budget?: string | null
  created_at?: string
  last_used_at?: string | null
  revoked_at?: string | null
}

export type Receipt = {
  payment_id: string
  direction?: 'in' | 'out'
  agent_id: string
  agent_name?: string
  created_at?: string
  issued_at?: string
  amount?: string
}
