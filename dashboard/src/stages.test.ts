import { expect, test } from 'vitest'
import type { Book, OrderRecord } from './api/types.ts'
import { paymentTitle, stagesOf } from './stages.ts'

const order = (status: OrderRecord['status'], book?: Book, price = '0.01') =>
  ({ status, price, ...(book !== undefined && { payment: { book } }) }) as OrderRecord
const text = (record: OrderRecord) => stagesOf(record).map(({ name, state }) => `${name} ${state}`)

test.each<[string, OrderRecord, string]>([
  ['waits', order('pending'), 'Paid later'],
  ['runs', order('executing', 'held'), 'Paid later'],
  ['is paid', order('completed', 'paid'), 'Paid done'],
  ['is about to be paid', order('completed', 'held'), 'Held now'],
  ['failed before it was signed', order('failed'), 'Not charged done'],
  ['failed, and its signature is still good', order('failed', 'held'), 'Held now'],
  ['failed, and its signature is void', order('failed', 'not_charged'), 'Not charged done'],
  ['failed, and was paid back', order('failed', 'refunded'), 'Paid back done'],
  ['failed, and was charged all the same', order('failed', 'paid'), 'Paid done'],
])('D42 an order that %s shows its cost: %#', (_, record, last) => {
  expect(text(record).at(-1)).toBe(last)
})

test('a free order has no payment stage', () => {
  expect(text(order('completed', undefined, '0'))).toEqual(['Ordered done', 'Working done', 'Result done'])
})

test('D42 only a payment that the chain shows is called received or made', () => {
  const words: Book[] = ['held', 'paid', 'not_charged', 'earned', 'owed', 'lost', 'refused', 'refunded']
  const named = words.map((book) => `${book}: ${paymentTitle({ book })}`)
  expect(named.filter((title) => /received|made/.test(title))).toEqual([
    'paid: Payment made',
    'earned: Payment received',
  ])
})
