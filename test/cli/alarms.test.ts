import { expect, test } from 'vitest'
import type { AlarmRecord } from '../../src/schema/alarm.ts'
import { cli, runningNode, status, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const alarm = (id: string, changes: Partial<AlarmRecord> = {}): AlarmRecord => ({
  ...{ id, kind: 'work_unpaid', severity: 'bad', title: '2 calls were worked for and never paid', text: 'No funds.' },
  ...{ count: 2, amount: '0.02', amount_atomic: '20000', mark: '17' },
  ...changes,
})

async function nodeWith(alarms: readonly AlarmRecord[]) {
  const dismissed: [string, string | undefined][] = []
  const { parts } = await runningNode(dataDir(), {
    status: async () => ({ ...status, alarms: alarms.length }),
    alarms: async ({ dismissed: also = false } = {}) => alarms.filter((one) => also || one.dismissed_at === undefined),
    async dismissAlarm(id, mark) {
      dismissed.push([id, mark])
      return alarm(id, { dismissed_at: '2026-01-01T00:00:00.000Z' })
    },
  })
  return { dismissed, parts, run: (...argv: string[]) => cli(argv, { dataDir: dataDir(), parts }) }
}

test('D42: `stoa status` counts the alarms, and `stoa alarms list` shows the contents of each', async () => {
  const { run } = await nodeWith([alarm('a'), alarm('b', { dismissed_at: '2026-01-01T00:00:00.000Z' })])
  expect((await run('status')).stdout).toMatch(/Alarms +2: stoa alarms list/)
  const { stdout } = await run('alarms', 'list')
  expect(stdout).toMatch(/^a +bad +0\.02 +2 calls were worked for and never paid\. No funds\.$/m)
  expect(stdout).not.toMatch(/^b /m)
  expect((await run('alarms', 'list', '--all')).stdout).toMatch(/^b +dismissed/m)
})

test('an alarm is shown with its end, which says what to do', async () => {
  const text = `${'It used another wallet before. '.repeat(13)}Set the key again.`
  const { run, parts } = await nodeWith([alarm('a', { text })])
  expect((await run('alarms', 'list')).stdout).toContain(text)
  const { stdout } = await cli(['alarms', 'list'], { dataDir: dataDir(), parts, tty: true, columns: 60 })
  const lines = stdout.trimEnd().split('\n').slice(1)
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(60)
  const words = lines.map((line) => line.slice(line.indexOf('  2 calls') === -1 ? 0 : line.indexOf('2 calls')).trim())
  expect(words.join(' ')).toContain(`never paid. ${text}`)
})

test('D42: `stoa alarms dismiss` dismisses the shown alarms, and requires their ids', async () => {
  const { run, dismissed } = await nodeWith([alarm('a'), alarm('b', { mark: '18' })])
  expect((await run('alarms', 'dismiss')).code).toBe(2)
  expect((await run('alarms', 'dismiss', 'b')).stdout).toMatch(/^dismissed: 2 calls/)
  await run('alarms', 'dismiss', '--all')
  expect(dismissed).toEqual([
    ['b', '18'],
    ['a', '17'],
    ['b', '18'],
  ])
})
