/** Output that comes after the result of its run. */
import { expect, test } from 'vitest'
import { openWorkshop, task } from '../../test/support/workshop.ts'

const body = (text: string) => Buffer.from(text).toString('base64')

test('T34 an agent that shows a word after its result costs its worker nothing', async () => {
  const shop = await openWorkshop()
  let showLate: ((text: string) => void) | undefined
  await shop.worker({
    async paint({ input, onOutput }) {
      if (input === 'second') showLate?.('late')
      showLate = onOutput
      return input
    },
  })
  const [link] = shop.pool.links()
  const onOutput = () => {}
  expect(await shop.pool.run('paint', task('first', { onOutput }))).toBe('first')
  expect(await shop.pool.run('paint', task('second', { onOutput }))).toBe('second')
  expect(await shop.pool.run('paint', task('third', { onOutput }))).toBe('third')
  expect(shop.pool.links()).toEqual([link])
})

test('T34 the seller drops late output of a run that ended, up to the limit of the run', async () => {
  const shop = await openWorkshop()
  const worker = await shop.joined()
  const shown: string[] = []
  const first = shop.pool.run('paint', task('a tree', { onOutput: (text) => shown.push(text) }))
  const run = await worker.task()
  await worker.send('work.result', { run, body: body('done') })
  expect(await first).toBe('done')
  await worker.send('work.output', { run, text: 'late' })
  const second = shop.pool.run('paint', task('a house'))
  await worker.send('work.result', { run: await worker.task(), body: body('done too') })
  expect([await second, shown]).toEqual(['done too', []])
  await worker.send('work.output', { run, text: 'x'.repeat(1000) })
  expect(await worker.refusal()).toBe('INVALID_MESSAGE')
})
