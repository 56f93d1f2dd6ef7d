import { smallest } from '../lib/bigints.ts'
import { type Pricing, rateNames, type Units } from '../schema/pricing.ts'

/*
 * The arithmetic of metered prices, the same at both sides (ADR-37): no clock, no channel. Amounts are atomic units.
 *
 *   charge = min(max, floor(per_call + input × per_1k_input ÷ 1000 + output × per_1k_output ÷ 1000 + ms × per_second ÷ 1000))
 *
 * All is summed in thousandths and rounded down once.
 */

const THOUSAND = 1000n

/** What a call costs that has used these units. */
export function priceOfUnits(pricing: Pricing, units: Units): bigint {
  const { per_call = 0n, per_1k_input_tokens = 0n, per_1k_output_tokens = 0n, per_second = 0n, max } = pricing
  const { input_tokens = 0, output_tokens = 0, milliseconds = 0 } = units
  const thousandths =
    per_call * THOUSAND +
    BigInt(input_tokens) * per_1k_input_tokens +
    BigInt(output_tokens) * per_1k_output_tokens +
    BigInt(milliseconds) * per_second
  return smallest(thousandths / THOUSAND, max)
}

/**
 * Why a charge cannot be true by the prices that the call was bought under. A lower one is a gift. Undefined: it can be true.
 */
export function falseCharge(
  pricing: Pricing,
  { amount, units }: { amount: bigint; units?: Units | undefined },
): string | undefined {
  const due = priceOfUnits(pricing, units ?? {})
  if (amount <= due) return undefined
  return `the seller charged ${amount} for units that cost ${due} by its listing`
}

/**
 * A count of tokens that no model undercuts: each word takes at least one. It stands in where a model says nothing of its
 * tokens, so a call is never charged for more than it has used.
 */
export function wordsIn(text: string): number {
  let words = 0
  for (const _ of text.matchAll(/\S+/g)) words++
  return words
}

export function isSamePricing(one: Pricing, other: Pricing): boolean {
  return one.max === other.max && rateNames.every((name) => one[name] === other[name])
}
