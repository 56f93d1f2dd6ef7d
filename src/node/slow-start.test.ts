import { expect, onTestFinished, test, vi } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { toldStart } from './slow-start.ts'

const latencyOf = (p50Ms: number) => () => ({ read: { p50Ms, p99Ms: p50Ms, count: 9 }, change: undefined })

function start(server: string | undefined, p50Ms: number) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const said: string[] = []
  const logger = { ...silentLogger, warn: (_: unknown, text: string) => void said.push(text) }
  const work = Promise.withResolvers<string>()
  const started = toldStart(work.promise, { server, latency: latencyOf(p50Ms), logger })
  return { said, work, started }
}

test('a start that takes long says once that its database is slow, and nothing when it has ended', async () => {
  const { said, work, started } = start('db.example:5432/stoa', 502)
  vi.advanceTimersByTime(2_000)
  expect(said).toEqual([])
  vi.advanceTimersByTime(20_000)
  expect(said).toEqual([expect.stringMatching(/^the start waits for db\.example:5432\/stoa, .* answers in 502 ms/)])
  work.resolve('up')
  expect(await started).toBe('up')
  expect(vi.getTimerCount()).toBe(0)
})

test.each([
  ['whose database is fast', 'db.example:5432/stoa', 3],
  ['without PostgreSQL', undefined, 502],
])('a start %s is not told', async (_, server, p50Ms) => {
  const { said, work, started } = start(server, p50Ms)
  vi.advanceTimersByTime(20_000)
  work.resolve('up')
  await started
  expect(said).toEqual([])
})
