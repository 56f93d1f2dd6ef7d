import * as z from 'zod'
import { formatPrice, PRICE_ATOMIC_MAX, Price, usdc } from './amount.ts'

/** What a metered agent charges for. What is charged never passes `max`. */
export const rateNames = ['per_call', 'per_1k_input_tokens', 'per_1k_output_tokens', 'per_second'] as const

const Rate = Price.refine((price) => price > 0n, 'must be more than 0; omit it to charge nothing for it')

type Rates<T> = { [name in (typeof rateNames)[number]]?: T | undefined } & { max: T }

function troubleOf(pricing: Rates<bigint>): string | undefined {
  if (rateNames.every((name) => pricing[name] === undefined)) return `give at least one of ${rateNames.join(', ')}`
  const { per_call: call = 0n, max } = pricing
  return call > max ? 'per_call is above max: every call would cost max' : undefined
}

function check(pricing: Rates<bigint>, context: z.core.$RefinementCtx): void {
  const message = troubleOf(pricing)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
}

/** The prices of a metered agent: USDC on the wire and in agents.yaml, atomic units in memory. */
export const Pricing = z
  .strictObject({
    per_call: Rate.optional().meta({ description: 'USDC for each call that succeeds' }),
    per_1k_input_tokens: Rate.optional().meta({ description: 'USDC for 1000 tokens that the model reads' }),
    per_1k_output_tokens: Rate.optional().meta({ description: 'USDC for 1000 tokens that the model writes' }),
    per_second: Rate.optional().meta({ description: 'USDC for a second of work' }),
    max: Rate.meta({ description: 'the most that one call costs, in USDC' }),
  })
  .superRefine(check)
  .meta({
    id: 'Pricing',
    description: 'Prices by use. The sum is rounded down to an atomic unit, and is at most `max`.',
  })
export type Pricing = z.infer<typeof Pricing>

const rateTexts = {
  per_call: 'a call',
  per_1k_input_tokens: 'per 1000 input tokens',
  per_1k_output_tokens: 'per 1000 output tokens',
  per_second: 'a second',
} as const satisfies Record<(typeof rateNames)[number], string>

/** Prices for people: `0.001 a call + 0.002 per 1000 output tokens, at most 0.05 USDC`. */
export function pricingText(pricing: Pricing): string {
  const rates = rateNames.flatMap((name) => {
    const rate = pricing[name]
    return rate === undefined ? [] : `${formatPrice(rate)} ${rateTexts[name]}`
  })
  return `${rates.join(' + ')}, at most ${usdc(pricing.max)}`
}

/** Amounts of a listing are text, as in `price_atomic`. */
const ListedRate = z
  .codec(z.string().regex(/^[1-9][0-9]{0,15}$/), z.bigint().min(1n).max(PRICE_ATOMIC_MAX), {
    decode: (text) => BigInt(text),
    encode: (amount) => amount.toString(),
  })
  .meta({ description: 'atomic units as a decimal string' })

/**
 * The same prices as peers exchange them. Strict: a node that does not know a rate of a later version would take its charges
 * for false ones.
 */
export const ListedPricing = z
  .strictObject({
    per_call: ListedRate.optional(),
    per_1k_input_tokens: ListedRate.optional(),
    per_1k_output_tokens: ListedRate.optional(),
    per_second: ListedRate.optional(),
    max: ListedRate,
  })
  .superRefine(check)
  .meta({ id: 'ListedPricing', description: 'The prices of a metered agent, in atomic units.' })

const Count = z.int().min(0)

/** What a call has used. What is not charged for may be left out. */
export const Units = z
  .object({
    input_tokens: Count.optional(),
    output_tokens: Count.optional(),
    milliseconds: Count.optional(),
  })
  .meta({ id: 'Units', description: 'What a call of a metered agent has used.' })
export type Units = z.infer<typeof Units>

/** What was used, for people: `4 input tokens, 10 output tokens, 1.2 s`. */
export function unitsText({ input_tokens: read, output_tokens: written, milliseconds }: Units): string {
  const tokens = (count: number, kind: string) => `${count} ${kind} token${count === 1 ? '' : 's'}`
  return [
    ...(read === undefined ? [] : [tokens(read, 'input')]),
    ...(written === undefined ? [] : [tokens(written, 'output')]),
    ...(milliseconds === undefined ? [] : [`${milliseconds / 1000} s`]),
  ].join(', ')
}

/** What a payment shows of a metered call. */
export const useFields = {
  units: Units.optional().meta({ description: 'what a call of a metered agent has used' }),
  cut: z.literal(true).optional().meta({ description: 'true: the output ends where it was paid for' }),
} as const
