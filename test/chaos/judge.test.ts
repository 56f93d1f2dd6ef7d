import { expect, test } from 'vitest'
import type { Bought, Charge, Sold } from './books.ts'
import { type Evidence, judge } from './judge.ts'

const bought: Bought = {
  ...{ order: 'o1', status: 'completed', task: 'w1|x', output: 'w1|x', error: null, workflow: null, step: null },
  ...{ nonce: '0x1', state: 'spent', amount: 10n, validBeforeSeconds: 100 },
}
const sold: Sold = { nonce: '0x1', state: 'settled', amount: 10n, error: null, txHash: '0xaa', settledFirst: false }
const charge: Charge = { nonce: '0x1', from: 'B', to: 'S', amount: 10n, txHash: '0xaa' }

function evidence(more: { bought?: Bought[]; sold?: Sold[]; runs?: number } & Partial<Evidence> = {}): Evidence {
  return {
    books: {
      bought: new Map([['b', more.bought ?? [bought]]]),
      sold: new Map([['s', more.sold ?? [sold]]]),
      runs: new Map([['s', new Map([['w1', more.runs ?? 1]])]]),
      unsound: [],
    },
    charges: [charge],
    wishes: [],
    budgets: { b: 10n },
    buyerOf: () => 'b',
    sellerOf: () => 's',
    nowSeconds: 200,
    exposureMax: 5n,
    ...more,
  }
}
const broken = (...args: Parameters<typeof evidence>) => judge(evidence(...args)).violations.map(({ rule }) => rule)
const wish = {
  id: 'w1',
  buyer: 'b',
  kind: 'execute',
  agent: 'repeat',
  path: '',
  body: {},
  asked: 1,
  ended: true,
} as const

test('books that agree with the chain break no rule', () => {
  const { violations, sums } = judge(evidence())
  expect(violations).toEqual([])
  expect(sums).toEqual({ bought: 1, delivered: 1, charged: 1, inDoubt: 0, free: 0 })
  expect(broken({ bought: [{ ...bought, status: 'executing', state: 'reserved' }] })).toEqual([])
  expect(broken({ sold: [{ ...sold, settledFirst: true }], runs: 2 })).toEqual([])
})

test.each<[string, Parameters<typeof evidence>[0]]>([
  ['an authorization moves money once', { charges: [charge, { ...charge, txHash: '0xbb' }], budgets: {} }],
  ['a charge stands in the book of its buyer', { bought: [] }],
  ['a charge stands in the book of its seller', { sold: [] }],
  ['a charge is earned in the book of its seller', { sold: [{ ...sold, state: 'unsettled' }] }],
  ['a charge counts in the book of its buyer', { bought: [{ ...bought, state: 'released' }] }],
  ['what was paid for is not lost', { bought: [{ ...bought, status: 'failed' }] }],
  ['a result is whole', { bought: [{ ...bought, output: 'w1' }] }],
  ['what is settled is on the chain', { charges: [], exposureMax: 10n }],
  ['nothing is free beyond the bounds', { charges: [], sold: [{ ...sold, state: 'unsettled' }] }],
  ['an authorization buys one run', { runs: 2 }],
  ['an authorization buys one run', { charges: [], bought: [], sold: [], wishes: [{ ...wish, answer: undefined }] }],
  ['a charge is what was agreed', { charges: [{ ...charge, amount: 9n }] }],
  ['a charge is what was agreed', { sellerOf: () => 'another' }],
  ['a budget is never passed', { budgets: { b: 9n } }],
  [
    'what was answered stands in the book',
    { wishes: [{ ...wish, answer: { status: 200, body: { order_id: 'o2' } } }] },
  ],
  [
    'a wish is bought once',
    {
      bought: [bought, { ...bought, order: 'o2', nonce: '0x2' }],
      sold: [sold, { ...sold, nonce: '0x2' }],
      charges: [charge, { ...charge, nonce: '0x2' }],
      budgets: {},
    },
  ],
])('that %s is found where it does not hold', (rule, more) => {
  expect(broken(more)).toContain(rule)
})
