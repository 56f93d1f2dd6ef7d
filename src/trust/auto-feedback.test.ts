import { expect, test, vi } from 'vitest'
import { Feed } from '../lib/feed.ts'
import { silentLogger } from '../lib/logger.ts'
import type { NodeEvents } from '../schema/events.ts'
import type { OrderRecord } from '../schema/order.ts'
import { createAutoFeedback } from './auto-feedback.ts'

const order = (changes: Partial<OrderRecord>) =>
  ({ id: '1', agent_id: 'a', status: 'completed', payment: {}, ...changes }) as OrderRecord

function setup(every: number) {
  const feed = new Feed<NodeEvents>({ life: 'test' })
  const rate = vi.fn(async (_agentId: string, _feedback: unknown, _signal: AbortSignal) => {})
  const ratings = createAutoFeedback(
    { every },
    { feed, rate, logger: silentLogger, successRate: () => 0.75, isRatable: (id) => id !== 'unlisted' },
  )
  const tell = (changes: Partial<OrderRecord>) => feed.publish('order', String(changes.id), () => order(changes))
  return { feed, rate, ratings, tell }
}
/** Whoever follows has read what was told before. */
const read = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
}

test('each agent is rated after so many paid orders, each order counted once', async () => {
  const { rate, ratings, tell } = setup(2)
  await ratings.start()
  tell({ id: '1' })
  tell({ id: '1' })
  tell({ id: '2', agent_id: 'b' })
  tell({ id: '3', status: 'executing' })
  tell({ id: '4', payment: undefined })
  await read()
  expect(rate).not.toHaveBeenCalled()
  tell({ id: '5', status: 'failed' })
  await read()
  expect(rate.mock.calls.map(([agentId, feedback]) => [agentId, feedback])).toEqual([
    ['a', { score: 75, tag1: 'successRate' }],
  ])
  await ratings.stop()
})

test('an agent without a token is not rated, and a rating that fails ends nothing', async () => {
  const { rate, ratings, tell } = setup(1)
  rate.mockRejectedValueOnce(new Error('no gas'))
  await ratings.start()
  tell({ id: '1', agent_id: 'unlisted' })
  tell({ id: '2' })
  tell({ id: '3' })
  await read()
  expect(rate.mock.calls.map(([agentId]) => agentId)).toEqual(['a', 'a'])
  await ratings.stop()
})

test('an order that cannot be read is not counted, and later orders are', async () => {
  const { feed, rate, ratings, tell } = setup(1)
  await ratings.start()
  feed.publish('order', '1', () => Promise.reject(new Error('the database is away')))
  tell({ id: '2' })
  await read()
  expect(rate).toHaveBeenCalledTimes(1)
  await ratings.stop()
})

test('one that waits for its transaction is let go of by the feed, and follows again; the end of the node ends both', async () => {
  const { feed, rate, ratings, tell } = setup(1)
  const gate = Promise.withResolvers<void>()
  rate.mockImplementationOnce(() => gate.promise)
  await ratings.start()
  tell({ id: 'first' })
  await read()
  for (let i = 0; i < 300; i++) tell({ id: `${i}`, status: 'executing' })
  gate.resolve()
  await read()
  tell({ id: 'last' })
  await read()
  expect(rate).toHaveBeenCalledTimes(2)
  feed.close()
  await ratings.stop()
})
