import { expect, test } from 'vitest'
import type { Doors } from '../../src/schema/doors.ts'
import { cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const doors: Doors = {
  doors: [],
  openai: { open: false, max_price: '0.01', daily_budget: '1', spent: '0', spent_today: '0' },
  api: { url: 'http://127.0.0.1:8424', needs_token: false },
}

test.each([
  [0, 'tested now\n'],
  [5 * 60_000, 'tested 5 min ago\n'],
])('doors says how long ago the addresses were tested: %i ms', async (past, said) => {
  const tests = { at: new Date(Date.now() - past).toISOString(), tests: [] }
  const { parts } = await runningNode(dataDir(), { doors: async () => ({ ...doors, tests }) })
  expect((await cli(['doors'], { dataDir: dataDir(), parts })).stdout).toContain(said)
})
