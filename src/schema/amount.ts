import * as z from 'zod'

/** USDC has 6 decimals on every network. */
const PRICE_DECIMALS = 6
/** The highest price of an agent: 1,000,000 USDC. */
export const PRICE_ATOMIC_MAX = 1_000_000n * 10n ** BigInt(PRICE_DECIMALS)

const EXPONENT_MAX = 60

/**
 * Converts decimal text to atomic units, exactly.
 *
 * Accepts plain decimals and exponents that resolve exactly (`1e-3` with 6 decimals). Libraries such as viem round
 * surplus digits. Money must not be rounded, so a non-zero digit beyond `decimals` is an error.
 *
 * @throws RangeError that names what is wrong with the text.
 */
export function parseAmount(text: string, decimals: number): bigint {
  const match = /^(0|[1-9][0-9]{0,30})(?:\.([0-9]{1,30}))?(?:[eE]([+-]?[0-9]{1,2}))?$/.exec(text)
  if (match === null) {
    const problem = /^-[0-9.]/.test(text) ? 'is less than 0' : 'is not a decimal amount'
    throw new RangeError(`${JSON.stringify(text.slice(0, 40))} ${problem}`)
  }
  const [, whole = '', fraction = '', exponentText = '0'] = match
  const exponent = Number(exponentText)
  if (Math.abs(exponent) > EXPONENT_MAX) throw new RangeError(`the exponent of ${text} is out of range`)
  const digits = BigInt(whole + fraction)
  const scale = decimals - fraction.length + exponent
  if (scale >= 0) return digits * 10n ** BigInt(scale)
  const divisor = 10n ** BigInt(-scale)
  if (digits % divisor !== 0n) throw new RangeError(`${text} has more than ${decimals} decimals`)
  return digits / divisor
}

/** The shortest decimal text of an amount in atomic units: `1500000n` with 6 decimals is `1.5`. */
export function formatAmount(atomic: bigint, decimals: number): string {
  const digits = atomic.toString().padStart(decimals + 1, '0')
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  const whole = digits.slice(0, digits.length - decimals)
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** The shortest decimal text of a USDC amount: `0.05`. */
export function formatPrice(atomic: bigint): string {
  return formatAmount(atomic, PRICE_DECIMALS)
}

/** A USDC amount for people: `0.05 USDC`. */
export function usdc(atomic: bigint): string {
  return `${formatPrice(atomic)} USDC`
}

/** Parses a USDC price from decimal text or a JSON number, within the limits of a listing (D7). @throws RangeError */
export function parsePrice(price: string | number): bigint {
  const atomic = parseAmount(String(price), PRICE_DECIMALS)
  if (atomic > PRICE_ATOMIC_MAX) throw new RangeError(`${price} is more than the limit of 1000000 USDC`)
  return atomic
}

function decodePrice(price: string | number, context: z.core.ParsePayload): bigint {
  try {
    return parsePrice(price)
  } catch (error) {
    context.issues.push({ code: 'custom', message: (error as Error).message, input: price })
    return z.NEVER
  }
}

/** A price in USDC: a JSON number on the wire, atomic units in memory. */
export const Price = z
  .codec(z.number(), z.bigint(), {
    decode: decodePrice,
    encode: (atomic) => Number(formatPrice(atomic)),
  })
  .meta({ description: 'USDC, at most 6 decimals, from 0 (free) to 1000000' })

/** Listings have prices as numbers, and some clients send those numbers back. */
const textNotNumber = ({ input }: { input?: unknown }) =>
  typeof input === 'number' ? `is text, not a number: "${input}"` : undefined

/** A price in USDC: decimal text on the wire, atomic units in memory. */
export const PriceText = z
  .codec(z.string({ error: textNotNumber }).max(40), z.bigint(), {
    decode: decodePrice,
    encode: formatPrice,
  })
  .meta({ description: 'USDC as decimal text, at most 6 decimals' })
