/** What an operator is told when the processes of one seller are not configured alike. */

import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import type { AlarmRecord } from '../../src/schema/alarm.ts'
import type { Diagnosis } from '../../src/schema/diagnosis.ts'
import type { Fleet } from '../../src/schema/fleet.ts'
import type { OwnAgent } from '../../src/schema/own-agent.ts'
import { cli } from '../cli/harness.ts'
import { ask } from '../support/api-calls.ts'
import { databaseOfNodes, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

afterAll(stopTestNodes)

const WAIT = { timeoutMs: 60_000, everyMs: 200 }

async function run(node: TestNode, ...command: string[]) {
  const { connect } = systemParts
  return cli(command, { dataDir: node.dataDir, parts: { connect, fetch } })
}

test('a price that is changed at one process is said to hold there only, until the other has it too', async () => {
  const database = await databaseOfNodes()
  const shared = { key: generatePrivateKey(), databaseUrl: database.address(), apiEnabled: true, publicDht: false }
  const one = await startTestNode({ ...shared, dailyBudgetAtomic: 5_000_000n })
  const dataDir = await testDir()
  await copyFile(join(one.dataDir, 'identity.key'), join(dataDir, 'identity.key'))
  const two = await startTestNode({ ...shared, dataDir, dailyBudgetAtomic: 9_000_000n })
  const echo = { name: 'Echo', description: 'd', price: 10_000n, model: 'builtin/echo' }
  const bulk = { name: 'Bulk', description: 'd', price: 0n, worker: true } as const
  for (const node of [one, two]) await node.registerAgent(echo, { persist: true })
  await one.registerAgent({ ...bulk, worker: undefined, model: 'builtin/echo' }, { persist: false })
  await two.ownAgents.keep(bulk)
  const { id } = (await ask<OwnAgent[]>(one.apiUrl!, '/agents/own')).find(({ name }) => name === 'Echo')!
  await until(async () => (await ask<Fleet>(two.apiUrl!, '/fleet')).processes.length === 2, WAIT)

  const changed = await run(one, 'agent', 'update', 'Echo', '--price', '0.02')
  expect(changed.stdout).toContain('Echo: changed')
  expect(changed.stderr).toMatch(/Echo: this process only\. Others have other settings, .*, process \d+\. Run the same/)
  const patched = { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"price":0.03}' }
  const answer = (await (await fetch(`${one.apiUrl}/agents/${id}`, patched)).json()) as OwnAgent
  expect(answer.differs_at).toEqual([expect.stringContaining(', process ')])
  // One that has just started may not have told all of its agents yet.
  await until(async () => {
    const fields = ['--name', 'New', '--description', 'd', '--price', '0', '--model', 'builtin/echo']
    const { stdout, stderr } = await run(one, 'agent', 'register', ...fields)
    expect(stdout).toContain('New is on the market')
    return stderr.includes('New: this process only')
  }, WAIT)

  // The other process hears of it, and says so wherever somebody looks.
  await until(async () => {
    const { processes } = await ask<Fleet>(two.apiUrl!, '/fleet')
    const differs = processes.find(({ answering }) => !answering)?.differs
    return differs?.agents.join() === 'Bulk,Echo,New' && differs.budget
  }, WAIT)
  const { checks } = await ask<Diagnosis>(two.apiUrl!, '/diagnosis')
  const texts = checks.filter((check) => check.id === 'processes').map(({ text }) => text)
  expect(texts).toContainEqual(
    expect.stringMatching(
      /has other agents than .*: Bulk \(other settings\), Echo \(other settings\), New \(only there\)/,
    ),
  )
  expect(texts).toContainEqual(expect.stringContaining('has another budget in its configuration'))
  expect((await run(two, 'status')).stdout).toMatch(
    /has other settings for Bulk, Echo, New and another budget: stoa doctor/,
  )
  await until(async () => {
    const alarms = await ask<AlarmRecord[]>(two.apiUrl!, '/alarms')
    return alarms.some(({ kind, text }) => kind === 'processes_differ' && text.includes('Bulk, Echo, New'))
  }, WAIT)

  // What another process sells is on sale.
  const list = await run(two, 'agent', 'list')
  expect(list.stdout).toMatch(/Bulk .*on sale elsewhere/)
  expect(list.stderr).not.toContain('no worker that can run it')

  const same = await run(two, 'agent', 'update', 'Echo', '--price', '0.03')
  expect(same.stderr).toBe('')
})
