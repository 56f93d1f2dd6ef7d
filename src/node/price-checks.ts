import { type Finding, warn } from '../lib/finding.ts'
import { TRANSACTION_COST } from '../payments/transaction-cost.ts'
import { usdc } from '../schema/amount.ts'
import type { OwnAgent } from '../schema/own-agent.ts'

/** Agents whose calls cost less than the transaction of a call that no channel pays. */
export function checkPrices(agents: readonly Pick<OwnAgent, 'name' | 'price' | 'on_channels_only'>[]): Finding[] {
  return agents
    .filter(({ price, on_channels_only }) => price > 0n && price < TRANSACTION_COST && on_channels_only !== true)
    .map(({ name, price }) => {
      const cost = `a call costs ${usdc(price)}, and the transaction of one that no channel pays about ${usdc(TRANSACTION_COST)}`
      const fix = `replace price by pricing with per_call and max in agents.yaml: then payment channels alone pay its calls`
      return warn(`${name}: ${cost}`, fix)
    })
}
