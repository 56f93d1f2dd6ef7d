/** T34: which worker gets a task when some of them fail. */
import { expect, test } from 'vitest'
import { openWorkshop, type ScriptedWorker, task } from '../../test/support/workshop.ts'

type Shop = Awaited<ReturnType<typeof openWorkshop>>
const body = (text: string) => Buffer.from(text).toString('base64')

/** Answers each task that a worker is given, and counts them. */
function serve(worker: ScriptedWorker, answer: 'result' | 'failure') {
  const served = { count: 0 }
  async function next(): Promise<void> {
    for (let given = await worker.next(); given !== undefined; given = await worker.next()) {
      if (given.type !== 'work.task') continue
      served.count += 1
      const run = String(given.message.run)
      if (answer === 'result') await worker.send('work.result', { run, body: body('done') })
      else await worker.send('work.failed', { run, code: 'AGENT_FAILED', message: 'no paint' })
    }
  }
  next().catch(() => {})
  return served
}

/** Runs tasks one after the other. @returns how many failed */
async function failures(shop: Shop, count: number): Promise<number> {
  let failed = 0
  for (let n = 0; n < count; n += 1) await shop.pool.run('paint', task(`${n}`)).catch(() => (failed += 1))
  return failed
}

test('T34 a worker that fails each task at once does not get them all', async () => {
  const shop = await openWorkshop()
  // It is always idle, and came first.
  const hole = serve(await shop.joined(['paint'], 8), 'failure')
  const sound = serve(await shop.joined(['paint'], 1), 'result')
  expect(await failures(shop, 100)).toBeLessThanOrEqual(3)
  expect([hole.count, sound.count]).toEqual([expect.any(Number), expect.any(Number)])
  expect(sound.count).toBeGreaterThanOrEqual(97)
})

test('T34 while others are busy, tasks wait for them and not for one that fails each task', async () => {
  const shop = await openWorkshop()
  serve(await shop.joined(['paint'], 8), 'failure')
  expect(await failures(shop, 3)).toBe(3)
  const worker = await shop.joined(['paint'], 1)
  expect(shop.pool.room('paint')).toBe(1)
  const runs = ['a', 'b', 'c'].map((input) => shop.pool.run('paint', task(input)))
  for (const _ of runs) await worker.send('work.result', { run: await worker.task(), body: body('painted') })
  expect(await Promise.all(runs)).toEqual(['painted', 'painted', 'painted'])
})

test('T34 after a while it is tried with one task, and has all its places back with a result', async () => {
  const shop = await openWorkshop()
  const failing = await shop.joined(['paint'], 2)
  const fail = async () => {
    const run = shop.pool.run('paint', task('x'))
    await failing.send('work.failed', { run: await failing.task(), code: 'AGENT_FAILED', message: 'no paint' })
    await expect(run).rejects.toMatchObject({ code: 'AGENT_FAILED' })
  }
  for (let count = 1; count <= 3; count += 1) await fail()
  const other = await shop.joined(['paint'], 1)
  expect(shop.pool.failing(shop.pool.links()[0]!)).toEqual(['paint'])
  expect(shop.pool.room('paint')).toBe(1)
  shop.clock.advance(10_000)
  expect(shop.pool.room('paint')).toBe(2)
  // The trial fails: it is set aside for twice as long.
  const kept = shop.pool.run('paint', task('kept'))
  const keptRun = await other.task()
  await fail()
  shop.clock.advance(19_999)
  expect(shop.pool.room('paint')).toBe(1)
  shop.clock.advance(1)
  const tried = shop.pool.run('paint', task('tried'))
  await failing.send('work.result', { run: await failing.task(), body: body('tried') })
  expect(await tried).toBe('tried')
  expect([shop.pool.room('paint'), shop.pool.failing(shop.pool.links()[0]!)]).toEqual([3, []])
  await other.send('work.result', { run: keptRun, body: body('kept') })
  expect(await kept).toBe('kept')
})

test('T34 a worker that fails alone goes on: its tasks fail, and none waits', async () => {
  const shop = await openWorkshop()
  const hole = serve(await shop.joined(['paint'], 4), 'failure')
  expect(await failures(shop, 20)).toBe(20)
  expect(hole.count).toBe(20)
})

test('T34 what a caller cancels is no failure of the worker, and one lost connection is one failure', async () => {
  const shop = await openWorkshop({ awayMs: 1 })
  const worker = await shop.joined(['paint'], 8)
  const canceling = new AbortController()
  const canceled = Array.from({ length: 4 }, () => shop.pool.run('paint', task('x', { signal: canceling.signal })))
  for (const _ of canceled) await worker.task()
  canceling.abort(new Error('nobody wants it'))
  await Promise.allSettled(canceled)
  expect(shop.pool.failing(shop.pool.links()[0]!)).toEqual([])
  const lost = Array.from({ length: 4 }, () => shop.pool.run('paint', task('x')))
  const [link] = shop.pool.links()
  link!.cut(new Error('the network is gone'))
  await Promise.allSettled(lost)
  expect(shop.pool.failing(link!)).toEqual([])
})

test('T34 other agents of a worker that fails one of them go on', async () => {
  const shop = await openWorkshop()
  const worker = await shop.joined(['paint', 'print'], 2)
  for (let count = 1; count <= 3; count += 1) {
    const run = shop.pool.run('paint', task('x'))
    await worker.send('work.failed', { run: await worker.task(), code: 'AGENT_NOT_RUNNABLE', message: 'no paint' })
    await expect(run).rejects.toThrow()
  }
  const [link] = shop.pool.links()
  expect([shop.pool.failing(link!), shop.pool.room('print')]).toEqual([['paint'], 2])
})
