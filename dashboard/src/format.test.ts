import { expect, test } from 'vitest'
import {
  agentPrice,
  ago,
  amount,
  duration,
  ether,
  isAmount,
  money,
  moneyColumn,
  plain,
  price,
  ratesText,
  short,
  signed,
  span,
} from './format.ts'

test.each([
  ['0', '0.00'],
  ['0.000001', '0.000001'],
  ['1234567.5', '1,234,567.50'],
  ['100000000000000000000.1', '100,000,000,000,000,000,000.10'],
  [0.0000001, '0.00'],
  [1e-6, '0.000001'],
  [null, '–'],
  ['what?', 'what?'],
])('T18 %s USDC is shown as %s', (amount, text) => {
  expect(money(amount)).toBe(text)
})

test('T18 a price of the API is sent back as the same amount', () => {
  expect([0.1, 0.000001, 0.0157, 1_000_000, 0.000249].map(plain)).toEqual([
    '0.1',
    '0.000001',
    '0.0157',
    '1000000',
    '0.000249',
  ])
})

test('amounts have a number, a unit and a sign; a price of zero is free, a sum of zero is not', () => {
  expect([amount('0.5'), amount('0'), amount(null), amount('3', 'USDT')]).toEqual([
    '0.50 USDC',
    '0.00 USDC',
    '–',
    '3.00 USDT',
  ])
  expect([price(0), price('0'), price('0.000001')]).toEqual(['free', 'free', '0.000001 USDC'])
  expect([signed('in', '0.05'), signed('out', '1200')]).toEqual(['+0.05 USDC', '−1,200.00 USDC'])
  expect(['0', '1.5', '0.0000000001', '0.1234569'].map(ether)).toEqual([
    '0.00 ETH',
    '1.50 ETH',
    '< 0.000001 ETH',
    '0.123456 ETH',
  ])
})

test('amounts in a column align at the decimal point', () => {
  const column = moneyColumn(['0.25', '0.003', '12'])
  expect(['0.25', '0.003', '12'].map(column)).toEqual(['0.250', '0.003', '12.000'])
})

test.each([
  ['0', true],
  ['0.05', true],
  ['1000000', true],
  ['0.0000001', false],
  ['1e3', false],
  ['-1', false],
  ['.5', false],
  ['', false],
  ['1,5', false],
])('%j is an amount: %s', (text, is) => {
  expect(isAmount(text)).toBe(is)
})

test('times are shown in the two largest units', () => {
  expect([0, 59, 3_600, 90_061].map(span)).toEqual(['0 s', '59 s', '1 h', '1 d 1 h'])
  expect([0.2, 12, 1_500, 61_000, undefined].map(duration)).toEqual(['< 1 ms', '12 ms', '1.5 s', '1 min 1 s', '–'])
  const now = Date.parse('2026-11-21T10:00:00Z')
  expect(ago('2026-11-21T09:00:00Z', now)).toBe('1 h ago')
  expect(ago('2026-11-21T10:02:00Z', now)).toBe('in 2 min')
})

test('a shortened id keeps its start and end', () => {
  expect([short('abcdefghijklmnop', 4), short('abcdefghi', 4)]).toEqual(['abcd…mnop', 'abcdefghi'])
})

test('the price of a metered agent is the most that a call costs, and its prices by use are told', () => {
  expect(agentPrice({ price: 0.02 })).toBe('0.02 USDC')
  expect(agentPrice({ price: 0 })).toBe('free')
  const pricing = { max: 0.02, per_1k_output_tokens: 0.002, per_1k_input_tokens: 0.0005 }
  expect(agentPrice({ price: 0.02, pricing })).toBe('up to 0.02 USDC')
  expect(ratesText(pricing)).toBe('0.0005 USDC for 1000 tokens read + 0.002 USDC for 1000 tokens written')
  expect(ratesText({ per_call: '0.01', per_second: 0.000001 })).toBe('0.01 USDC a call + 0.000001 USDC a second')
})
