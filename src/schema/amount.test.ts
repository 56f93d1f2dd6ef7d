import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readVectors } from '../../test/support/read-vectors.ts'
import { formatAmount, PRICE_ATOMIC_MAX, Price, PriceText, parseAmount, parsePrice } from './amount.ts'

type Vectors = {
  amounts: { price: string; atomic: string; text: string }[]
  numbers: { price: number; atomic: string }[]
  refused: string[]
  refused_numbers: number[]
}
const vectors = readVectors<Vectors>('amounts')

test.each(vectors.amounts)('T18: $price is $atomic atomic units, and reads $text', ({ price, atomic, text }) => {
  expect(parsePrice(price)).toBe(BigInt(atomic))
  expect(PriceText.parse(price)).toBe(BigInt(atomic))
  expect(formatAmount(BigInt(atomic), 6)).toBe(text)
  expect(parsePrice(text)).toBe(BigInt(atomic))
})

test.each(vectors.numbers)('T18: the JSON number $price is $atomic atomic units, and back', ({ price, atomic }) => {
  expect(Price.decode(price)).toBe(BigInt(atomic))
  expect(Price.encode(BigInt(atomic))).toBe(price)
})

test.each(vectors.refused)('D7: %j is not a price', (price) => {
  expect(() => parsePrice(price)).toThrow(RangeError)
  expect(PriceText.safeParse(price).success).toBe(false)
})

test.each(vectors.refused_numbers)('D7: the JSON number %s is not a price', (price) => {
  expect(Price.safeParse(price).success).toBe(false)
})

test('D7: the error of a negative price says that it is negative', () => {
  expect(() => parsePrice(-1)).toThrow('"-1" is less than 0')
})

test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])('D7: %s is not a price', (price) => {
  expect(() => parsePrice(price)).toThrow(RangeError)
  expect(Price.safeParse(price).success).toBe(false)
})

describe('exactly', () => {
  const atomic = fc.bigInt({ min: 0n, max: PRICE_ATOMIC_MAX })
  test('every price is the same after writing and reading, as text and as a JSON number', () => {
    fc.assert(
      fc.property(atomic, (amount) => {
        expect(parsePrice(formatAmount(amount, 6))).toBe(amount)
        expect(Price.decode(JSON.parse(JSON.stringify(Price.encode(amount))))).toBe(amount)
      }),
      { numRuns: 2000 },
    )
  })

  test('amounts of any size and precision are the same after writing and reading', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.nat(18), (amount, decimals) => {
        expect(parseAmount(formatAmount(amount, decimals), decimals)).toBe(amount)
      }),
    )
  })

  test('a digit beyond the last decimal is an error, never rounded', () => {
    fc.assert(
      fc.property(atomic, fc.integer({ min: 1, max: 9 }), (amount, digit) => {
        const text = formatAmount(amount, 6)
        const padded = text.includes('.') ? text.padEnd(text.indexOf('.') + 7, '0') : `${text}.000000`
        expect(parseAmount(padded, 6)).toBe(amount)
        expect(() => parseAmount(`${padded}${digit}`, 6)).toThrow(/more than 6 decimals/)
      }),
    )
  })

  test('every text is an exact amount or a RangeError', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9.eE+-]{0,12}$/)), (text) => {
        try {
          expect(parseAmount(text, 6)).toBeGreaterThanOrEqual(0n)
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError)
        }
      }),
      { numRuns: 1000 },
    )
  })
})

test('the error of a price sent as a number says to send text', () => {
  expect(PriceText.safeParse(0.05).error?.issues[0]?.message).toBe('is text, not a number: "0.05"')
  expect(PriceText.safeParse(undefined).error?.issues[0]?.message).toContain('received undefined')
})
