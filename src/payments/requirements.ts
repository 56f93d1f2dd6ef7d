import { usdc } from '../schema/amount.ts'
import { SETTLEMENT_SECONDS } from '../schema/limits.ts'
import type { PaymentRequirements } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import { type Asset, sameAddress } from './assets.ts'

/** What a seller asks for one run: the amount is the agent's. `settlesFirst` is shown to the buyer before it signs (D45). */
export function requirementsOf(
  agent: { amount: bigint; timeoutMs: number },
  asset: Asset,
  payTo: Hex,
  { settlesFirst = false } = {},
): PaymentRequirements {
  return {
    scheme: 'exact',
    network: asset.network,
    amount: agent.amount,
    asset: asset.address,
    payTo,
    maxTimeoutSeconds: Math.ceil(agent.timeoutMs / 1000) + SETTLEMENT_SECONDS,
    ...(settlesFirst && { extra: { settles_first: true } }),
  }
}

export type ListedTerms = { amount: bigint; network: string; asset: string; payTo: string }

/** The first difference from the seller's listing (D33). The buyer never signs other terms blindly (T2). */
export function differenceFromListing(asked: PaymentRequirements, listed: ListedTerms): string | undefined {
  if (asked.amount !== listed.amount) return `asks for ${usdc(asked.amount)}, its listing says ${usdc(listed.amount)}`
  if (asked.network !== listed.network)
    return `asks for payment on ${asked.network}, its listing says ${listed.network}`
  if (!sameAddress(asked.asset, listed.asset)) return `asks for asset ${asked.asset}, its listing says ${listed.asset}`
  if (!sameAddress(asked.payTo, listed.payTo)) return `asks to pay ${asked.payTo}, its listing says ${listed.payTo}`
  return undefined
}
