/** Two processes of one seller, each with an agents.yaml of its own: what a reload at one of them changes. */
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import type { Fleet } from '../../src/schema/fleet.ts'
import type { OwnAgent, ReloadedAgents } from '../../src/schema/own-agent.ts'
import { ask } from '../support/api-calls.ts'
import { databaseOfNodes, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

afterAll(stopTestNodes)

const WAIT = { timeoutMs: 60_000, everyMs: 200 }
const echo = (price: string) => `- {name: Echo, description: d, model: builtin/echo, price: ${price}}\n`
const only = '- {name: Only, description: d, model: builtin/echo, price: 0}\n'

test('each process follows its own file: a change holds there, and an agent is on the market while one process sells it', async () => {
  const database = await databaseOfNodes()
  const buyer = await startTestNode({ key: generatePrivateKey() })
  const bootstrap = [buyer.addresses().find((address) => address.includes('/tcp/'))!]
  const key = generatePrivateKey()
  const shared = { key, bootstrap, databaseUrl: database.address(), apiEnabled: true, publicDht: false }
  const one = await startTestNode(shared)
  const dataDir = await testDir()
  await copyFile(join(one.dataDir, 'identity.key'), join(dataDir, 'identity.key'))
  const two = await startTestNode({ ...shared, dataDir })
  const write = (node: TestNode, ...entries: string[]) =>
    writeFile(join(node.dataDir, 'agents.yaml'), entries.length === 0 ? 'agents: []\n' : `agents:\n${entries.join('')}`)
  const reload = (node: TestNode) => ask<ReloadedAgents>(node.apiUrl!, '/agents/reload', { method: 'POST' })
  const own = (node: TestNode) => ask<OwnAgent[]>(node.apiUrl!, '/agents/own')
  const processes = async (node: TestNode) => (await ask<Fleet>(node.apiUrl!, '/fleet')).processes
  const seen = (name: string) => buyer.listings().find((listing) => listing.name === name)

  for (const node of [one, two]) {
    await write(node, echo('0'))
    expect(await reload(node)).toMatchObject({ added: [{ name: 'Echo', listed: true }] })
  }
  await until(async () => (await processes(one)).every(({ agents }) => agents.length === 1), WAIT)
  await until(() => seen('Echo')?.addrs.length === one.addresses().length + two.addresses().length, WAIT)

  // A new agent at one process is sold there, and the other one has not read it.
  await write(one, echo('0'), only)
  await write(two, echo('0'), only)
  const added = await reload(one)
  expect(added).toMatchObject({ added: [{ name: 'Only' }], unchanged: 1 })
  expect((await own(two)).map(({ name }) => name)).toEqual(['Echo'])
  await until(() => seen('Only'), WAIT)
  const { id } = seen('Only')!
  const run = () => buyer.execute({ agentId: id, input: 'x', signal: AbortSignal.timeout(60_000) })
  expect(await run()).toMatchObject({ output: 'x' })

  // A price that holds at one process is said to differ.
  await write(one, echo('0.02'), only)
  expect((await reload(one)).changed).toMatchObject([{ name: 'Echo', price: '0.02', differs_at: [expect.any(String)] }])
  expect((await own(two)).map(({ price }) => price)).toEqual(['0'])
  await write(two, echo('0.02'), only)
  await reload(two)
  await until(async () => (await own(two)).every(({ differs_at }) => differs_at === undefined), WAIT)

  // Removed at one process, it stays on the market by the other, and leaves with the last.
  await write(one, only)
  expect((await reload(one)).removed).toMatchObject([{ name: 'Echo', listed: false }])
  await until(() => seen('Echo')?.addrs.length === two.addresses().length, WAIT)
  await write(two, only)
  await reload(two)
  await until(() => seen('Echo') === undefined, WAIT)
  expect(await run()).toMatchObject({ output: 'x' })
})
