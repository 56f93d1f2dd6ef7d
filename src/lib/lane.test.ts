import { expect, test } from 'vitest'
import { createLane, Lanes } from './lane.ts'

test('runs tasks one after the other, also after one that failed', async () => {
  const order: string[] = []
  const lane = createLane()
  const failing = lane(async () => {
    await new Promise(setImmediate)
    order.push('first')
    throw new Error('failed')
  })
  const second = lane(async () => void order.push('second'))
  await expect(failing).rejects.toThrow('failed')
  await second
  expect(order).toEqual(['first', 'second'])
})

test('tasks of one key wait for one another, and not for those of another key', async () => {
  const order: string[] = []
  const lanes = new Lanes()
  const gate = Promise.withResolvers<void>()
  void lanes.run('a', () => gate.promise)
  void lanes.run('a', async () => void order.push('a'))
  await lanes.run('b', async () => void order.push('b'))
  gate.resolve()
  await lanes.ended()
  expect(order).toEqual(['b', 'a'])
})
