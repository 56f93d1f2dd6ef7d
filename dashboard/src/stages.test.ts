import { expect, test } from 'vitest'
import type { OrderRecord } from './api/types.ts'
import { paymentTitle, stagesOf } from './stages.ts'

const order = (status: OrderRecord['status'], settlement?: string, price = '0.01') =>
  ({ status, price, ...(settlement !== undefined && { payment: { settlement } }) }) as OrderRecord
const text = (record: OrderRecord) => stagesOf(record).map(({ name, state }) => `${name} ${state}`)

test.each<[string, OrderRecord, string]>([
  ['waits', order('pending'), 'Settled later'],
  ['runs', order('executing', 'reserved'), 'Settled later'],
  ['is paid', order('completed', 'settled'), 'Settled done'],
  ['is about to be paid', order('completed', 'pending'), 'Settling now'],
  ['failed before it was signed', order('failed'), 'Not charged done'],
  ['failed, and its signature is still good', order('failed', 'reserved'), 'Not charged so far now'],
  ['failed, and its signature is void', order('failed', 'released'), 'Not charged done'],
])('an order that %s says what it costs: %#', (_, record, last) => {
  expect(text(record).at(-1)).toBe(last)
})

test('a free one has no such stage', () => {
  expect(text(order('completed', undefined, '0'))).toEqual(['Ordered done', 'At work done', 'Result done'])
})

test('a payment that was never settled is not called received or made', () => {
  const states = ['settled', 'pending', 'reserved', 'released', 'voided', 'failed'] as const
  const titles = (direction: 'in' | 'out') => states.map((state) => `${state}: ${paymentTitle({ direction, state })}`)
  expect(titles('in').filter((title) => title.includes('received'))).toEqual(['settled: Payment received'])
  expect(titles('out').filter((title) => title.includes('made'))).toEqual(['settled: Payment made'])
})
