import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { run } from '../query.ts'
import type { Connection } from './connection.ts'
import { sentOf } from './sent.ts'
import { Writer } from './writer.ts'
import type { Line } from './writing-line.ts'

beforeEach(
  () =>
    void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] }),
)
afterEach(() => void vi.useRealTimers())

/** A writer whose server answers each group after `groupMs`, and the numbers of statements of the groups it got. */
function writerTo({ groupMs }: { groupMs: number }) {
  const groups: number[] = []
  const connection: Partial<Connection> = {
    async send(statements) {
      groups.push(statements.filter(({ text }) => text.startsWith('UPDATE')).length)
      await new Promise((resolve) => setTimeout(resolve, groupMs))
      return { kind: 'done', answers: statements.map(() => ({ rows: [], changes: 1 })) }
    },
  }
  const line = {
    connection: async () => connection as Connection,
    fence: () => ({
      ...{ no: 1, statement: sentOf({ sql: 'SELECT 1', values: [], wants: 'changes' }) },
      at: { monotonicMs: 0, wallMs: 0 },
    }),
    renewed: () => {},
    lost: () => undefined,
  } as Partial<Line> as Line
  const settings = { name: 'the database' } as ConstructorParameters<typeof Writer>[0]['settings']
  return { writer: new Writer({ settings, line, renewMs: 1_000_000 }), groups }
}

const change = () => run('UPDATE things SET n = 1')

test('on a far server, a change that nobody waits for joins the next group of some that take long', async () => {
  const { writer, groups } = writerTo({ groupMs: 8 })
  const first = writer.commit(change())
  await vi.waitFor(() => expect(groups).toEqual([1]), 30_000)
  await vi.advanceTimersByTimeAsync(8)
  await first
  const later = writer.commitLater(change())
  await vi.advanceTimersByTimeAsync(20)
  expect(groups).toEqual([1])
  const next = writer.commit(change())
  await vi.waitFor(() => expect(groups).toEqual([1, 2]), 30_000)
  await vi.advanceTimersByTimeAsync(8)
  expect(await Promise.all([later, next])).toEqual([1, 1])
})

test('a change that nobody waits for has a group of its own after 100 ms, however far the server is', async () => {
  const { writer, groups } = writerTo({ groupMs: 1_000 })
  const first = writer.commit(change())
  await vi.waitFor(() => expect(groups).toEqual([1]), 30_000)
  await vi.advanceTimersByTimeAsync(1_000)
  await first
  const later = writer.commitLater(change())
  await vi.advanceTimersByTimeAsync(100)
  await vi.waitFor(() => expect(groups).toEqual([1, 1]), 30_000)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await later).toBe(1)
})
