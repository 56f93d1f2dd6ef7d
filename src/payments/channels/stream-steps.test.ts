import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Pricing } from '../../schema/pricing.ts'
import { firstCeiling, leastToBegin, nextCeiling } from './stream-steps.ts'

const amounts = fc.bigInt({ min: 1n, max: 10n ** 12n })

test('ADR-37 a ceiling rises one step at a time, never above max, and at most a step beyond what is charged', () => {
  const asked = fc.record({ max: amounts, granted: amounts, charged: fc.bigInt({ min: 0n, max: 10n ** 13n }) })
  fc.assert(
    fc.property(asked, ({ max, granted, charged }) => {
      const next = nextCeiling({ granted, charged, max })
      const step = (max + 9n) / 10n
      if (next === undefined) expect(granted >= max || charged + step / 2n <= granted).toBe(true)
      else {
        expect(next > granted && next <= max && next - granted <= step).toBe(true)
        // Where the seller has charged no more than it may, one step is at risk, and half a one that it has asked for early.
        if (charged <= granted) expect(next - charged <= step + step / 2n + 1n).toBe(true)
      }
    }),
  )
})

test('ADR-37 whatever the seller states, few steps lead to max, and none beyond', () => {
  fc.assert(
    fc.property(amounts, fc.array(fc.bigInt({ min: 0n, max: 10n ** 13n }), { maxLength: 200 }), (max, stated) => {
      let granted = 1n
      let steps = 0
      for (const charged of stated) {
        const next = nextCeiling({ granted, charged, max })
        if (next === undefined) continue
        granted = next
        steps++
      }
      expect(granted <= max || granted === 1n).toBe(true)
      expect(steps).toBeLessThanOrEqual(10)
    }),
  )
})

test('ADR-37 a buyer begins with what a seller wants at least', () => {
  const pricing = fc.record({ per_call: amounts, per_1k_input_tokens: amounts, max: amounts }) as fc.Arbitrary<Pricing>
  fc.assert(
    fc.property(pricing, fc.string(), (prices, task) => {
      const [first, least] = [firstCeiling(prices, task), leastToBegin(prices, task)]
      expect(first >= least && first <= prices.max).toBe(true)
    }),
  )
})
