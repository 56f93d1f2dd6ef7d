import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CallAmounts } from './call-amounts.ts'

const change = fc.record({
  call: fc.nat({ max: 40 }).map(String),
  amount: fc.option(fc.bigInt(0n, 1_000n), { nil: undefined }),
})

test('amounts are those of a map, whatever changes came before, and old values stay as they were', () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 120 }), (changes) => {
      const seen: { amounts: CallAmounts; expected: Map<string, bigint> }[] = []
      let amounts = CallAmounts.none
      let expected = new Map<string, bigint>()
      for (const { call, amount } of changes) {
        expected = new Map(expected)
        if (amount === undefined) expected.delete(call)
        else expected.set(call, amount)
        amounts = amount === undefined ? amounts.without(call) : amounts.with(call, amount)
        seen.push({ amounts, expected })
      }
      for (const { amounts, expected } of seen) {
        expect(new Map(amounts)).toEqual(expected)
        expect(amounts.size).toBe(expected.size)
        expect(amounts.sum).toBe(expected.values().reduce((a, b) => a + b, 0n))
        for (let at = 0; at <= 40; at++) {
          expect(amounts.get(String(at))).toBe(expected.get(String(at)))
          expect(amounts.has(String(at))).toBe(expected.has(String(at)))
        }
      }
    }),
  )
})

test('a call that is not there is taken out without a change', () => {
  const amounts = CallAmounts.of([['a', 1n]])
  expect(amounts.without('b')).toBe(amounts)
  expect(amounts.with('a', 3n).sum).toBe(3n)
})
