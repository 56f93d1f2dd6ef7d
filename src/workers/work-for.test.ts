import { expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { openWorkshop, task } from '../../test/support/workshop.ts'
import { WorkError } from './work-error.ts'

test('a worker whose connection is lost comes back by itself, and its runs are stopped', async () => {
  const shop = await openWorkshop()
  const began: AbortSignal[] = []
  const worker = await shop.worker({
    async paint({ signal, input }) {
      began.push(signal)
      if (began.length > 1) return `painted ${input}`
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      throw new Error('stopped')
    },
  })
  const result = shop.pool.run('paint', task('a tree'))
  await until(() => began.length === 1)
  shop.pool.link(worker.id)!.cut(new Error('the network is gone'))
  expect(await result).toBe('painted a tree')
  expect([began[0]!.aborted, began[1]!.aborted]).toEqual([true, false])
})

test('a worker that is refused for good ends with the reason', async () => {
  const shop = await openWorkshop()
  const worker = await shop.worker({ paint: async () => 'painted' })
  await shop.roll.revoke(worker.id)
  await expect(worker.ended).rejects.toMatchObject({
    code: 'REVOKED',
    message: expect.stringContaining('stoa worker invite'),
  })
})

test('the limits of the seller hold at the worker, whatever its own entry says', async () => {
  const shop = await openWorkshop()
  await shop.worker({ paint: async ({ input }) => input.repeat(11) })
  const run = (input: string, changes = {}) => shop.pool.run('paint', task(input, { outputBytesMax: 100, ...changes }))
  expect(await run('x'.repeat(9))).toHaveLength(99)
  await expect(run('x'.repeat(10))).rejects.toMatchObject({ code: 'AGENT_OUTPUT_TOO_LARGE' })
  expect(await run('x'.repeat(10), { outputBytesMax: 110 })).toHaveLength(110)
  // It answered each time: nothing was cut.
  expect(shop.pool.links()).toHaveLength(1)
})

test('the largest task and the largest result pass, also what is no ASCII', async () => {
  const shop = await openWorkshop()
  await shop.worker({
    count: async ({ input }) => `${input.length}`,
    paint: async ({ input }) => '€'.repeat(Number(input)),
  })
  expect(await shop.pool.run('count', task('\u0001'.repeat(6 * 1024 * 1024 - 3072)))).toBe('6288384')
  const count = Math.floor((4 * 1024 * 1024) / 3)
  const large = await shop.pool.run('paint', task(`${count}`, { outputBytesMax: 4 * 1024 * 1024 }))
  expect(large).toHaveLength(count)
})

test('a failure of the agent comes back with its code, and unexplained errors without their text', async () => {
  const shop = await openWorkshop()
  await shop.worker({
    paint: async () => {
      throw new Error('the path /home/me/secret is missing')
    },
  })
  const result = shop.pool.run('paint', task('a tree'))
  await expect(result).rejects.toMatchObject({ code: 'AGENT_FAILED', message: 'the agent failed' })
})

test('a worker comes back after an invalid message, and ends when it repeats', async () => {
  const shop = await openWorkshop()
  const worker = await shop.worker({ paint: async () => 'painted' })
  for (const left of [2, 1, 0]) {
    const link = await until(() => shop.pool.link(worker.id))
    link.cut(new WorkError('INVALID_MESSAGE', 'wrong'))
    if (left > 0) await until(() => shop.pool.link(worker.id) !== undefined && shop.pool.link(worker.id) !== link)
  }
  await expect(worker.ended).rejects.toMatchObject({ code: 'INVALID_MESSAGE' })
})
