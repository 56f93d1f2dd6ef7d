import type { AgentCall } from './runtime.ts'

/** A paid agent of the market, as its A2A card names it. Its price is in its signed listing. */
export type NamedAgent = { agentId: string; peerId: string; payTo: string | undefined; network: string }

export type AgentPurchase = {
  /** Name of the buying agent. */
  name: string
  named: NamedAgent
  /** Highest price to pay, in atomic units. */
  maxPrice: bigint
  call: AgentCall
}

/** Purchases of own agents, at most one per run. Both methods throw AgentError; its cause is for the operator. */
export interface AgentPurchases {
  /** Returns what this run bought before, also before a crash. Undefined if the run has no purchase that counts. */
  resume(name: string, call: AgentCall): Promise<string | undefined>
  /** Buys one run of another agent. Calls `onCommitted` right before the signature. */
  buy(purchase: AgentPurchase): Promise<string>
  /** True if an own agent bought for too many sold runs that are not earned yet. Its buyers must then settle first. */
  isAhead(agentId: string): Promise<boolean>
}

/** Longest chain of agents that buy for one another. A longer chain is treated as a loop. */
export const HOPS_MAX = 4
