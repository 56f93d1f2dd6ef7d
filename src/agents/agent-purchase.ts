import type { AgentCall } from './runtime.ts'

/** A paid agent of the market, as its A2A card names it. What it costs is in its signed listing. */
export type NamedAgent = { agentId: string; peerId: string; payTo: string | undefined; network: string }

/** What an own agent buys for one run. */
export type AgentPurchase = {
  /** The own agent. */
  name: string
  named: NamedAgent
  /** The most to pay, atomic units. */
  maxPrice: bigint
  call: AgentCall
}

/** What own agents buy for their runs, once for each run. Both throw AgentError that buyers may read; its cause is for the operator. */
export interface AgentPurchases {
  /** What was bought for this very run before, also before a crash. Undefined: nothing that counts. */
  resume(name: string, call: AgentCall): Promise<string | undefined>
  /** Buys one run of another agent. Says `onCommitted` right before it signs. */
  buy(purchase: AgentPurchase): Promise<string>
}

/** So many agents may buy for one another: A of B, B of C. Beyond it they are taken for a loop. */
export const HOPS_MAX = 4
