/** What a worker says of a run that failed. Output that was shown until a limit is owed for, so only the seller decides. */
import { expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { openWorkshop, task } from '../../test/support/workshop.ts'
import { outputTooLarge } from '../agents/runtime.ts'
import { silentLogger } from '../lib/logger.ts'

async function failedAs(code: 'AGENT_TIMEOUT' | 'AGENT_OUTPUT_TOO_LARGE' | 'AGENT_CANCELLED', shown: string) {
  const shop = await openWorkshop()
  const worker = await shop.joined()
  const run = shop.pool.run('paint', task('a tree', { onOutput() {} }))
  const id = await worker.task()
  await worker.send('work.output', { run: id, text: shown })
  await worker.send('work.failed', { run: id, code, message: 'as I say' })
  return run.catch(({ code, message }) => [code, message])
}

test('T34 a limit that only the worker speaks of is a failure, for which nobody owes', async () => {
  expect(await failedAs('AGENT_TIMEOUT', 'a word')).toEqual(['AGENT_FAILED', 'as I say'])
  expect(await failedAs('AGENT_OUTPUT_TOO_LARGE', 'x'.repeat(990))).toEqual(['AGENT_FAILED', 'as I say'])
  expect(await failedAs('AGENT_CANCELLED', 'a word')).toEqual(['AGENT_FAILED', 'as I say'])
  // The seller saw the output fill its limit.
  expect(await failedAs('AGENT_OUTPUT_TOO_LARGE', 'x'.repeat(1000))).toEqual(['AGENT_OUTPUT_TOO_LARGE', 'as I say'])
})

test('T34 an agent that runs over its limit on an honest worker shows the seller that it does', async () => {
  const shop = await openWorkshop()
  await shop.worker({
    async paint({ onOutput }) {
      onOutput?.('ß'.repeat(499))
      onOutput?.(`x${'ß'.repeat(70_000)}`)
      throw outputTooLarge(1000)
    },
  })
  let shown = ''
  const onOutput = (text: string) => {
    shown += text
  }
  const run = shop.pool.run('paint', task('a tree', { onOutput }))
  await expect(run).rejects.toMatchObject({ code: 'AGENT_OUTPUT_TOO_LARGE' })
  expect(shown).toBe(`${'ß'.repeat(499)}x`)
})

test('T34 a character between two pieces is not counted twice', async () => {
  const shop = await openWorkshop()
  const text = `x${'😀'.repeat(65_537)}`
  await shop.worker({
    async paint({ onOutput }) {
      onOutput?.(text)
      return text
    },
  })
  let shown = ''
  const onOutput = (piece: string) => {
    shown += piece
  }
  const outputBytesMax = Buffer.byteLength(text)
  expect(await shop.pool.run('paint', task('a tree', { onOutput, outputBytesMax }))).toBe(text)
  expect(shown).toBe(text)
})

test('T34 what a worker says of its failure reaches buyers on one line, without controls', async () => {
  const shop = await openWorkshop()
  const worker = await shop.joined()
  const said = async (message: string) => {
    const run = shop.pool.run('paint', task('a tree'))
    await worker.send('work.failed', { run: await worker.task(), code: 'AGENT_FAILED', message })
    return run.catch((error: Error) => error.message)
  }
  expect(await said('no\u001b[2J paint\r\n\u202eleft\u009b\u2028')).toBe('no [2J paint left')
  expect(await said('\u0007\n')).toBe('the agent failed')
})

test('a worker hears which of its agents match none of the seller', async () => {
  const shop = await openWorkshop({ unknown: ['paintr'] })
  const welcome = async (names: string[]) => (await (await shop.peer()).join(await shop.invite(), names))?.message
  expect(await welcome(['paint', 'paintr'])).toMatchObject({ unknown_agents: ['paintr'] })
  expect(await welcome(['paint'])).not.toHaveProperty('unknown_agents')
})

test('a worker that leaves, or whose seller stops, is a line without an error', async () => {
  const log: unknown[][] = []
  const note =
    (level: string) =>
    (...entry: unknown[]) =>
      void log.push([level, ...entry])
  const logger = { ...silentLogger, info: note('info'), warn: note('warn'), error: note('error') }
  const shop = await openWorkshop({ logger })
  const gone = await shop.joined()
  gone.stream.abort(new Error('reset'))
  await until(() => shop.pool.links().length === 0)
  const staying = await shop.joined()
  await shop.door.stop()
  expect(await staying.refusal()).toBe('OVERLOADED')
  expect(log.map(([level, , text]) => `${level} ${String(text).replace(/-.+ /, ' ')}`)).toEqual([
    ...['info worker worker joined', 'info worker worker left', 'info worker worker joined', 'info worker worker left'],
  ])
  expect(log.filter(([, fields]) => Object.hasOwn(fields as object, 'err'))).toEqual([])
})
