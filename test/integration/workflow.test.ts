/** Workflows over three node processes, killed and restarted in the middle. The chain says what was paid. */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { NodeProcess } from '../../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { WorkflowRecord } from '../../src/schema/workflow.ts'
import { ask, call, discovered } from '../support/api-calls.ts'
import { runStoa, startNode } from '../support/cli-node.ts'
import { begun, gone, hasEnded, slowProgram } from '../support/slow-agent.ts'
import { until } from '../support/until.ts'

type Key = ReturnType<typeof generatePrivateKey>
type Place = { name: string; key: Key; agents: object[]; flags?: string[] }

let devnet: Devnet
let home: string
let environment: Record<string, string>
const running = new Map<string, NodeProcess>()
const keys = { first: generatePrivateKey(), second: generatePrivateKey(), buyer: generatePrivateKey() }
let places: Record<'first' | 'second' | 'buyer', Place>

beforeAll(async () => {
  devnet = await startDevnet()
  await devnet.fund(addressOf('buyer'), 10_000_000n)
  environment = {
    ETHEREUM_RPC_URL: devnet.rpcUrl,
    FACILITATOR_URL: devnet.facilitatorUrl,
    NODE_LISTEN_HOST: '127.0.0.1',
  }
})
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-workflow-'))
  const agent = (name: string, price: number, ms: number) => {
    return { name, description: 'd', price, command: slowProgram(home, ms) }
  }
  places = {
    first: { name: 'first', key: keys.first, agents: [agent('draft', 0.1, 300), agent('review', 0.04, 300)] },
    second: { name: 'second', key: keys.second, agents: [agent('translate', 0.25, 3_000), agent('print', 0.02, 300)] },
    buyer: { name: 'buyer', key: keys.buyer, agents: [] },
  }
})
afterEach(async () => {
  await Promise.all([...running.values()].map((node) => node.stop()))
  running.clear()
  await rm(home, { recursive: true, force: true })
})
afterAll(() => devnet?.stop())

function addressOf(place: keyof typeof keys) {
  return privateKeyToAccount(keys[place]).address
}

async function start(place: keyof typeof keys, bootstrap?: NodeProcess): Promise<NodeProcess> {
  const { name, key, agents, flags = [] } = places[place]
  const dataDir = join(home, name)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  if (agents.length > 0) await writeFile(join(dataDir, 'agents.yaml'), JSON.stringify({ agents }))
  const via = bootstrap === undefined ? [] : ['--bootstrap', bootstrap.ready.addresses[0]!]
  const node = await startNode(
    ['--port', '0', '--api-port', '0', '--no-mdns', '--data-dir', dataDir, ...via, ...flags],
    {
      ...environment,
      ETHEREUM_PRIVATE_KEY: key,
    },
  )
  running.set(name, node)
  return node
}
async function kill(place: keyof typeof keys): Promise<void> {
  const node = running.get(places[place].name)!
  running.delete(places[place].name)
  node.child.kill('SIGKILL')
  if (node.child.exitCode === null && node.child.signalCode === null) await once(node.child, 'exit')
}
const idOf = (node: NodeProcess, name: string) => node.ready.agents.find((agent) => agent.name === name)!.id

/** Two sellers and a buyer that knows all their agents. */
async function startMarket() {
  const first = await start('first')
  const second = await start('second', first)
  const buyer = await start('buyer', first)
  const agents = [...first.ready.agents, ...second.ready.agents]
  for (const { id } of agents) await discovered(buyer.ready.api_url, id)
  return { first, second, buyer, url: buyer.ready.api_url }
}
async function money() {
  const [first, second, buyer] = await Promise.all(
    (['first', 'second', 'buyer'] as const).map((place) => devnet.chain.balanceOf(addressOf(place))),
  )
  return { first: first!, second: second!, buyer: buyer! }
}
/** What each has gained since, once everything that was promised is settled. */
async function gained(before: Awaited<ReturnType<typeof money>>, expected: { first: bigint; second: bigint }) {
  const since = async () => {
    const now = await money()
    return { first: now.first - before.first, second: now.second - before.second, buyer: now.buyer - before.buyer }
  }
  const settled = async () => {
    const { first, second } = await since()
    return first >= expected.first && second >= expected.second
  }
  await until(settled, { everyMs: 100 })
  for (const name of ['first', 'second']) {
    const url = running.get(name)!.ready.api_url
    const idle = async () => (await ask<{ settlement: { pending: number } }>(url, '/status')).settlement.pending === 0
    await until(idle, { everyMs: 100 })
  }
  return since()
}
const paidTwice = { first: 100_000n, second: 20_000n, buyer: -120_000n }
const paidOnce = { first: 140_000n, second: 270_000n, buyer: -410_000n }

function fourSteps(first: NodeProcess, second: NodeProcess, more: object = {}) {
  return {
    name: 'report',
    input: 'a text',
    budget: '0.41',
    steps: [
      { id: 'draft', agent_id: idOf(first, 'draft') },
      { id: 'translate', agent_id: idOf(second, 'translate'), depends_on: ['draft'], ...more },
      { id: 'review', agent_id: idOf(first, 'review'), input: 'Review: {{steps.draft.output}}', depends_on: ['draft'] },
      {
        id: 'print',
        agent_id: idOf(second, 'print'),
        input: '{{steps.translate.output}} / {{ steps.review.output }} / {{input}}',
        max_price: '0.02',
      },
    ],
  }
}
const output = 'slowly: slowly: slowly: a text / slowly: Review: slowly: a text / a text'
const settledAt = (url: string, id: string) => ask<WorkflowRecord>(url, `/workflows/${id}?wait=60`)

test('D20: four steps over three nodes, the buyer killed in the middle, end completed, and each is paid once', async () => {
  const { first, second, url } = await startMarket()
  const before = await money()
  const quote = await ask<{ total: string }>(url, '/workflows?dry_run=true', { body: fourSteps(first, second) })
  expect(quote).toMatchObject({ dry_run: true, total: '0.41' })
  const { id } = await ask<WorkflowRecord>(url, '/workflows', { body: fourSteps(first, second) })
  await begun(home, 'slowly a text')
  await kill('buyer')

  const { ready } = await start('buyer', first)
  const done = await settledAt(ready.api_url, id)
  expect(done).toMatchObject({ status: 'completed', output, spent: '0.41' })
  expect(done.steps.map((step) => [step.id, step.status, step.order_ids.length])).toEqual([
    ['draft', 'completed', 1],
    ['translate', 'completed', 1],
    ['review', 'completed', 1],
    ['print', 'completed', 1],
  ])
  expect(await gained(before, paidOnce)).toEqual(paidOnce)
})

test('D20: a seller killed between its steps is waited for, and each step is paid once', async () => {
  const { first, second, buyer, url } = await startMarket()
  const before = await money()
  const steps = [
    { id: 'draft', agent_id: idOf(first, 'draft') },
    { id: 'translate', agent_id: idOf(second, 'translate') },
    { id: 'review', agent_id: idOf(first, 'review'), retries: 10 },
    { id: 'print', agent_id: idOf(second, 'print') },
  ]
  const { id } = await ask<WorkflowRecord>(url, '/workflows', { body: { input: 'a text', steps } })
  await begun(home, 'slowly a text')
  await kill('first')
  await until(
    async () => {
      const { steps } = await ask<WorkflowRecord>(url, `/workflows/${id}`)
      return steps.find((step) => step.id === 'review')!.order_ids.length >= 1
    },
    { timeoutMs: 60_000 },
  )
  await start('first', buyer)
  const done = await settledAt(url, id)
  expect(done).toMatchObject({ status: 'completed', spent: '0.41' })
  expect(await gained(before, paidOnce)).toEqual(paidOnce)
})

test('D20: canceling ends the agents at work, keeps what was paid for and begins nothing more', async () => {
  const { first, second, url } = await startMarket()
  const before = await money()
  const { id } = await ask<WorkflowRecord>(url, '/workflows', { body: fourSteps(first, second) })
  const pid = await begun(home, 'slowly a text')
  const canceled = await ask<WorkflowRecord>(url, `/workflows/${id}`, { method: 'DELETE' })
  expect(canceled.status).toBe('canceled')
  const states = Object.fromEntries(canceled.steps.map((step) => [step.id, step]))
  expect(states.draft).toMatchObject({ status: 'completed', output: 'slowly: a text' })
  expect(states.translate?.status).toBe('canceled')
  expect(states.print?.status).toBe('skipped')
  await gone(pid)
  expect(hasEnded(home, 'slowly a text')).toBe(false)
  const again = await call(url, `/workflows/${id}`, { method: 'DELETE' })
  expect(again).toMatchObject({ status: 409, body: { code: 'WORKFLOW_FINAL' } })
  const reviewed = states.review?.status === 'completed' ? 40_000n : 0n
  expect(await gained(before, { first: 100_000n + reviewed, second: 0n })).toEqual({
    first: 100_000n + reviewed,
    second: 0n,
    buyer: -100_000n - reviewed,
  })
})

test.each([
  ['is not followed by a second purchase', {}, 'failed', { first: 100_000n, second: 0n, buyer: -100_000n }],
  ['is followed by one where the step says rebuy', { rebuy: true }, 'completed', { ...paidTwice }],
])('D45: a step that was settled first and failed %s', async (_what, rule, status, expected) => {
  const broken = { name: 'broken', description: 'd', price: 0.1, command: [process.execPath, '-e', 'process.exit(1)'] }
  Object.assign(places.first, { agents: [broken], flags: ['--settle-first'] })
  const { first, second, url } = await startMarket()
  const before = await money()
  const step = { agent_id: idOf(first, 'broken'), fallback: [idOf(second, 'print')], ...rule }
  const { id } = await ask<WorkflowRecord>(url, '/workflows', { body: { input: 'a text', steps: [step] } })
  const done = await settledAt(url, id)
  expect(done).toMatchObject({ status, steps: [{ order_ids: { length: status === 'failed' ? 1 : 2 } }] })
  expect(await gained(before, expected)).toEqual(expected)
  const order = await ask<{ payment: object }>(url, `/orders/${done.steps[0]!.order_ids[0]}`)
  expect(order.payment).toMatchObject({ settles_first: true })
})

test('the command line quotes, runs, lists and shows workflows of the running node', async () => {
  const { first, second } = await startMarket()
  const stoa = (...args: string[]) =>
    runStoa(['workflow', ...args, '--data-dir', join(home, 'buyer')], {
      ...environment,
      ETHEREUM_PRIVATE_KEY: keys.buyer,
    })
  const file = join(home, 'report.json')
  await writeFile(file, JSON.stringify(fourSteps(first, second)))
  expect(await stoa('run', '--file', file, '--dry-run')).toMatch(/^STEP .*\n.*\ntotal 0\.41 USDC; the budget is 0\.41/s)
  expect(await stoa('run', '--file', file)).toBe(`${output}\n`)
  const [done] = JSON.parse(await stoa('list', '--json')) as WorkflowRecord[]
  expect(done).toMatchObject({ status: 'completed', name: 'report' })
  for (const line of (await stoa('list')).split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  const shown = (await stoa('show', done!.id)).split('\n')
  expect(shown.find((line) => line.startsWith('translate'))).toMatch(/^translate +completed +0\.25 +/)
})
