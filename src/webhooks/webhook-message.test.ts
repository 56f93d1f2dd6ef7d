import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { statusFixture } from '../../test/support/fake-api.ts'
import type { NodeEvents } from '../schema/events.ts'
import { messageBody } from './webhook-body.ts'
import { eventName, isWanted, signedHeaders } from './webhook-message.ts'

const now = Date.UTC(2026, 10, 21, 12)
const order = {
  id: 'order-1',
  agent_id: 'a',
  seller_id: null,
  price: 10_000n,
  price_atomic: '10000',
  status: 'completed',
  task: 'x'.repeat(10_000),
  created_at: '2026-11-21T12:00:00.000Z',
  updated_at: '2026-11-21T12:00:00.000Z',
} satisfies NodeEvents['order']

test('a message is named after its type and the state it tells of; who asked for the type is told of all', () => {
  expect(eventName('order', order)).toBe('order.completed')
  expect(eventName('listing', { change: 'delisted', agent_id: 'a', seller_id: 'b' })).toBe('listing.delisted')
  expect(eventName('status', statusFixture)).toBe('status')
  expect(isWanted(['payment', 'order.failed'], 'payment.settled')).toBe(true)
  expect(isWanted(['payment', 'order.failed'], 'order.failed')).toBe(true)
  expect(isWanted(['payment', 'order.failed'], 'order.completed')).toBe(false)
})

test('the body is the event as the API has it, long texts cut', () => {
  const body = JSON.parse(messageBody('order', order, now))
  expect(body).toMatchObject({
    type: 'order.completed',
    timestamp: '2026-11-21T12:00:00.000Z',
    data: { id: 'order-1', price: '0.01', status: 'completed' },
  })
  expect(body.data.task).toHaveLength(4_097)
})

test('the signature is over id, time and body; a whsec_ secret is the base64 of its key', () => {
  const key = Buffer.alloc(32, 7)
  const message = { id: 'msg-1', body: '{"a":1}', now }
  const signature = createHmac('sha256', key)
    .update(`msg-1.${now / 1000}.{"a":1}`)
    .digest('base64')
  expect(signedHeaders({ ...message, secret: `whsec_${key.toString('base64')}` })).toMatchObject({
    'webhook-id': 'msg-1',
    'webhook-timestamp': String(now / 1000),
    'webhook-signature': `v1,${signature}`,
  })
  const other = signedHeaders({ ...message, body: '{"a":2}', secret: `whsec_${key.toString('base64')}` })
  expect(other['webhook-signature']).not.toBe(`v1,${signature}`)
})

test('signs as the test vector of Standard Webhooks says', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const message = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', body: '{"test": 2432232314}', now: 1_614_265_330_000 }
  expect(signedHeaders({ ...message, secret })).toMatchObject({
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})
