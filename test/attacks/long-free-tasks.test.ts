/** T34, T6: a stranger's task that is too long for a frame to a worker takes nothing from other buyers. */
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { callMarketplace } from '../../src/protocols/marketplace.ts'
import { TASK_BYTES_MAX } from '../../src/schema/limits.ts'
import { openWorkshop, task } from '../support/workshop.ts'
import { base64, TestSeller, told } from '../support/x402-seller.ts'

test('T34 a task that fits no frame fails alone: no worker is cut off, and its slot is free again', async () => {
  const shop = await openWorkshop({ awayMs: 200 })
  const worker = await shop.joined(['paint'], 2)
  const paid = shop.pool.run('paint', task('paid'))
  const run = await worker.task()
  await expect(shop.pool.run('paint', task('x'.repeat(7 * 1024 * 1024)))).rejects.toMatchObject({
    code: 'AGENT_FAILED',
    message: 'the task is too long for a worker',
  })
  expect(shop.pool.links().map(({ running }) => running)).toEqual([1])
  await worker.send('work.result', { run, body: base64('done') })
  expect(await paid).toBe('done')
})

test('T34 the longest task fits the frame to a worker, whatever its caller and agent are called', async () => {
  const shop = await openWorkshop()
  const name = '\u{1F3A8}'.repeat(40)
  const worker = await shop.joined([name])
  const ending = new AbortController()
  const { signal } = ending
  const run = shop.pool.run(name, task('x'.repeat(TASK_BYTES_MAX), { callerId: '"'.repeat(400), signal }))
  expect(await worker.task()).toBeTypeOf('string')
  ending.abort()
  await expect(run).rejects.toMatchObject({ code: 'AGENT_CANCELLED' })
})

test('T34 a seller refuses a free task over the limit before anything runs, by either protocol', async () => {
  const seller = await new TestSeller().start()
  onTestFinished(() => seller.stop())
  const input = 'x'.repeat(TASK_BYTES_MAX + 1)
  const call = { agentId: 'free', input, correlationId: randomUUID() }
  const stream = await seller.openMarketplace('alice')
  await expect(callMarketplace(stream, call, AbortSignal.timeout(20_000))).rejects.toMatchObject({
    code: 'INVALID_MESSAGE',
    message: expect.stringContaining(`the limit is ${TASK_BYTES_MAX}`),
  })
  const peer = await seller.connect('bob')
  expect(told(await peer.request({ resource: 'free', body: base64(input) }))).toContain('INVALID_MESSAGE')
  expect(seller.runs).toEqual([])
})
