import { expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { openWorkshop, task } from '../../test/support/workshop.ts'

const body = (text: string) => Buffer.from(text).toString('base64')
const leave = ({ stream }: { stream: { abort(error: Error): void } }) => stream.abort(new Error('killed'))

test('a task goes to the worker that runs the fewest, and waits while all are busy', async () => {
  const shop = await openWorkshop()
  const [wide, narrow] = [await shop.joined(['paint'], 2), await shop.joined(['paint'], 1)]
  const runs = ['a', 'b', 'c', 'd'].map((input) => shop.pool.run('paint', task(input)))
  const [first, other] = [await wide.task(), await narrow.task()]
  const second = await wide.task()
  expect(shop.pool.links().map(({ running }) => running)).toEqual([2, 1])
  await narrow.send('work.result', { run: other, body: body('b') })
  const last = await narrow.task()
  await narrow.send('work.result', { run: last, body: body('d') })
  await wide.send('work.result', { run: first, body: body('a') })
  await wide.send('work.failed', { run: second, code: 'AGENT_FAILED', message: 'no paint' })
  expect(await Promise.allSettled(runs)).toEqual([
    { status: 'fulfilled', value: 'a' },
    { status: 'fulfilled', value: 'b' },
    { status: 'rejected', reason: expect.objectContaining({ code: 'AGENT_FAILED', message: 'no paint' }) },
    { status: 'fulfilled', value: 'd' },
  ])
})

test('T34 a task whose worker is lost goes to another worker, and once only', async () => {
  const shop = await openWorkshop()
  const first = await shop.joined()
  const result = shop.pool.run('paint', task('a tree'))
  await first.task()
  const second = await shop.joined()
  leave(first)
  await second.task()
  const third = await shop.joined()
  leave(second)
  await expect(result).rejects.toMatchObject({ code: 'AGENT_FAILED', message: expect.stringContaining('lost') })
  expect(shop.pool.link(shop.pool.links()[0]!.worker.id)?.running).toBe(0)
  leave(third)
})

test('T34 a task that has shown output is not begun anew', async () => {
  const shop = await openWorkshop()
  const [first, second] = [await shop.joined(), await shop.joined()]
  let shown = ''
  const onOutput = (text: string) => {
    shown += text
  }
  const result = shop.pool.run('paint', task('a tree', { onOutput }))
  await first.send('work.output', { run: await first.task(), text: 'half a tree' })
  await until(() => shown !== '')
  leave(first)
  await expect(result).rejects.toMatchObject({ code: 'AGENT_FAILED' })
  expect([shown, shop.pool.links().map(({ running }) => running)]).toEqual(['half a tree', [0]])
  leave(second)
})

test('a task waits a little for a worker that lost its connection', async () => {
  const shop = await openWorkshop({ awayMs: 60_000 })
  const first = await shop.joined()
  const result = shop.pool.run('paint', task('a tree'))
  await first.task()
  leave(first)
  await until(() => !shop.pool.canRun('paint'))
  const again = await shop.joined()
  await again.send('work.result', { run: await again.task(), body: body('a tree') })
  expect(await result).toBe('a tree')
})

test('without a worker a task fails at once, or a little after the last worker was lost', async () => {
  const shop = await openWorkshop({ awayMs: 10 })
  await expect(shop.pool.run('paint', task('x'))).rejects.toMatchObject({ code: 'AGENT_NOT_RUNNABLE' })
  const worker = await shop.joined(['paint'], 1)
  const [running, waiting] = [shop.pool.run('paint', task('x')), shop.pool.run('paint', task('y'))]
  await worker.task()
  leave(worker)
  const failure = { status: 'rejected', reason: expect.objectContaining({ code: 'AGENT_NOT_RUNNABLE' }) }
  expect(await Promise.allSettled([running, waiting])).toEqual([failure, failure])
})

test('a task that is canceled while it waits leaves its place to the next', async () => {
  const shop = await openWorkshop()
  const worker = await shop.joined()
  const canceling = new AbortController()
  const first = shop.pool.run('paint', task('a'))
  const second = shop.pool.run('paint', task('b', { signal: canceling.signal }))
  const third = shop.pool.run('paint', task('c'))
  const run = await worker.task()
  canceling.abort(new Error('nobody wants it'))
  await expect(second).rejects.toMatchObject({ code: 'AGENT_CANCELLED' })
  await worker.send('work.result', { run, body: body('a') })
  await worker.send('work.result', { run: await worker.task(), body: body('c') })
  expect([await first, await third]).toEqual(['a', 'c'])
})

test('listeners hear of workers that come and go', async () => {
  const shop = await openWorkshop()
  const seen: boolean[] = []
  shop.pool.onChange(() => seen.push(shop.pool.canRun('paint')))
  const worker = await shop.joined()
  leave(worker)
  await until(() => seen.length === 2)
  expect(seen).toEqual([true, false])
})
