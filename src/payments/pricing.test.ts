import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Pricing, Units } from '../schema/pricing.ts'
import { falseCharge, isSamePricing, priceOfUnits, wordsIn } from './pricing.ts'

const rate = fc.option(fc.bigInt({ min: 1n, max: 10n ** 12n }), { nil: undefined })
const count = fc.option(fc.nat({ max: Number.MAX_SAFE_INTEGER }), { nil: undefined })
const pricings: fc.Arbitrary<Pricing> = fc.record({
  per_call: rate,
  per_1k_input_tokens: rate,
  per_1k_output_tokens: rate,
  per_second: rate,
  max: fc.bigInt({ min: 1n, max: 10n ** 12n }),
})
const used: fc.Arbitrary<Units> = fc
  .record({ input_tokens: count, output_tokens: count, milliseconds: count })
  .map((units) => Object.fromEntries(Object.entries(units).filter(([, value]) => value !== undefined)))

test('ADR-37 a charge is the exact sum of what was used, rounded down once, and at most max', () => {
  const pricing = { per_call: 100n, per_1k_input_tokens: 7n, per_1k_output_tokens: 15n, per_second: 3n, max: 1_000n }
  expect(priceOfUnits(pricing, {})).toBe(100n)
  // 0.7 + 0.6 + 0.9 = 2.2: rounding each by itself would give 0.
  expect(priceOfUnits(pricing, { input_tokens: 100, output_tokens: 40, milliseconds: 300 })).toBe(102n)
  expect(priceOfUnits(pricing, { input_tokens: Number.MAX_SAFE_INTEGER })).toBe(1_000n)
  fc.assert(
    fc.property(pricings, used, (pricing, units) => {
      const price = priceOfUnits(pricing, units)
      expect(price >= 0n && price <= pricing.max).toBe(true)
      const part = (count: number | undefined, rate: bigint | undefined) => BigInt(count ?? 0) * (rate ?? 0n)
      const thousandths =
        (pricing.per_call ?? 0n) * 1000n +
        part(units.input_tokens, pricing.per_1k_input_tokens) +
        part(units.output_tokens, pricing.per_1k_output_tokens) +
        part(units.milliseconds, pricing.per_second)
      if (price < pricing.max) expect(thousandths - price * 1000n).toBeLessThan(1000n)
      expect(price * 1000n <= thousandths).toBe(true)
    }),
  )
})

test('ADR-37 more use never costs less', () => {
  fc.assert(
    fc.property(pricings, used, fc.nat({ max: 1_000_000 }), (pricing, units, more) => {
      const grown = { ...units, output_tokens: Math.min((units.output_tokens ?? 0) + more, Number.MAX_SAFE_INTEGER) }
      expect(priceOfUnits(pricing, grown) >= priceOfUnits(pricing, units)).toBe(true)
    }),
  )
})

test('ADR-37 a charge above what its units cost is false, and a lower one is a gift', () => {
  fc.assert(
    fc.property(pricings, used, fc.bigInt({ min: 1n, max: 10n ** 12n }), (pricing, units, more) => {
      const due = priceOfUnits(pricing, units)
      expect(falseCharge(pricing, { amount: due, units })).toBeUndefined()
      expect(falseCharge(pricing, { amount: due / 2n, units })).toBeUndefined()
      expect(falseCharge(pricing, { amount: due + more, units })).toMatch(/by its listing/)
    }),
  )
  const pricing = { per_call: 5n, per_second: 1_000n, max: 1_000n }
  expect(falseCharge(pricing, { amount: 5n })).toBeUndefined()
  expect(falseCharge(pricing, { amount: 6n })).toMatch(/charged 6 for units that cost 5/)
})

test('words are counted where a model does not say its tokens', () => {
  expect(wordsIn('')).toBe(0)
  expect(wordsIn('  one two\n three\t')).toBe(3)
})

test('prices are the same only if each of them is', () => {
  fc.assert(
    fc.property(pricings, pricings, (one, other) => {
      expect(isSamePricing(one, { ...one })).toBe(true)
      expect(isSamePricing(one, { ...one, max: one.max + 1n })).toBe(false)
      expect(isSamePricing(one, other)).toBe(isSamePricing(other, one))
    }),
  )
})
