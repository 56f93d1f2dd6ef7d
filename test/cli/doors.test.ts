import { expect, test } from 'vitest'
import type { Doors, DoorTest } from '../../src/schema/doors.ts'
import { cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const url = 'http://127.0.0.1:8426/x402/a'
const local: DoorTest = { door: 'http', from: 'here', url, state: 'warn', text: 'is not outside', fix: 'use a proxy' }
const doors: Doors = {
  doors: [],
  openai: { open: false, max_price: '0.01', daily_budget: '1', spent: '0', spent_today: '0' },
  api: { url: 'http://127.0.0.1:8424', needs_token: false },
}

test.each([
  [0, 'tested now\n'],
  [5 * 60_000, 'tested 5 min ago\n'],
])('doors says how long ago the addresses were tested: %i ms', async (past, said) => {
  const tests = { at: new Date(Date.now() - past).toISOString(), tests: [local] }
  const { parts } = await runningNode(dataDir(), { doors: async () => ({ ...doors, tests }) })
  expect((await cli(['doors'], { dataDir: dataDir(), parts })).stdout).toContain(said)
})

test('a narrow terminal cuts no address', async () => {
  const agents = [{ agent_id: 'a', agent_name: 'Echo', url }]
  const known = { door: 'http', open: true, url, calls: 0, earned: '0', earned_atomic: '0', agents } as const
  const { parts } = await runningNode(dataDir(), { doors: async () => ({ ...doors, doors: [{ ...known, agents }] }) })
  const { stdout } = await cli(['doors'], { dataDir: dataDir(), parts, tty: true, columns: 40 })
  expect(stdout.split(url)).toHaveLength(3)
})

test('a fix that several addresses need is told once, and without an address nothing was tested', async () => {
  const said = async (tests: DoorTest[]) => {
    const known = { ...doors, tests: { at: new Date().toISOString(), tests } }
    const { parts } = await runningNode(dataDir(), { doors: async () => known })
    return (await cli(['doors'], { dataDir: dataDir(), parts })).stdout
  }
  const broken: DoorTest = { ...local, url: `${url}3`, state: 'fail', fix: 'repair it' }
  const lines = (await said([local, { ...local, url: `${url}2` }, broken])).split('\n').slice(-6)
  expect(lines).toEqual([
    `! ${url}: is not outside`,
    `! ${url}2: is not outside`,
    '  fix: use a proxy',
    `✗ ${url}3: is not outside`,
    '  fix: repair it',
    '',
  ])
  expect(await said([])).toMatch(/nothing to test/)
})
