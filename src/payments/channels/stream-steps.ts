import { largest, smallest } from '../../lib/bigints.ts'
import type { Pricing } from '../../schema/pricing.ts'
import { priceOfUnits } from '../pricing.ts'

/*
 * How the ceiling of a call grows while its output streams, as pure functions (ADR-37). Amounts are atomic units.
 *
 *   charge ≤ granted ≤ max        granted rises by one step at a time
 */

/** Steps from nothing to `max`. */
const STEPS = 10n
/** Bytes of a task that make a token, at least: so the first ceiling covers what the model reads of it, as a rule. */
const TOKEN_BYTES = 3

/** What a call must be covered for before it begins: its call price, and what its model reads at once. */
export function leastToBegin(pricing: Pricing, task: string): bigint {
  return priceOfUnits(pricing, { input_tokens: Math.ceil(Buffer.byteLength(task) / TOKEN_BYTES) })
}

/** What a buyer covers first. */
export function firstCeiling(pricing: Pricing, task: string): bigint {
  return smallest(leastToBegin(pricing, task) + stepOf(pricing.max), pricing.max)
}

/**
 * The next ceiling of a call that costs `charged` so far. Undefined: enough is covered, or all that may be.
 */
export function nextCeiling({ granted, charged, max }: { granted: bigint; charged: bigint; max: bigint }) {
  const step = stepOf(max)
  if (granted >= max || charged + step / 2n <= granted) return undefined
  return smallest(granted + step, max)
}

function stepOf(max: bigint): bigint {
  return largest((max + STEPS - 1n) / STEPS, 1n)
}
