/** Agents, orders and sessions are found by what people call them. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import { cli } from '../cli/harness.ts'
import { discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

let one: TestNode
let two: TestNode
let ids: Record<string, string>
beforeAll(async () => {
  one = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  two = await startTestNode({ key: generatePrivateKey(), bootstrap: [one.addresses()[0]!] })
  const free = { description: 'repeats', price: 0n, model: 'builtin/echo' }
  ids = {
    echo: (await one.registerAgent({ name: 'Echo', ...free })).id,
    count: (await one.registerAgent({ name: 'Word counter', ...free, model: 'builtin/word-count' })).id,
    other: (await two.registerAgent({ name: 'Echo', ...free }, { persist: false })).id,
  }
  await discover(one, two.peerId, 'Echo')
  // Listings of others are indexed a moment after they are known.
  await until(async () => (await fetch(`${one.apiUrl}/agents/Echo`)).status === 409)
})
afterAll(stopTestNodes)

const run = (...argv: string[]) => cli(argv, { dataDir: one.dataDir, parts: systemParts })
const execute = (agent: string) => run('agent', 'execute', '--agent-id', agent, '--task', 'hello')

test('an agent is found by its name, in any letters, where no other has it', async () => {
  expect(JSON.parse((await execute('Word counter')).stdout)).toMatchObject({ words: 1 })
  expect(await execute('word Counter')).toMatchObject({ code: 0 })
  expect(await run('session', 'list', '--agent-id', 'Word counter')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('local'),
  })
})

test('a name that two sellers have chooses none of them: their ids and seller/name are shown', async () => {
  const { code, stderr } = await execute('Echo')
  expect(code).not.toBe(0)
  expect(stderr).toContain('several agents fit "Echo"')
  for (const id of [ids.echo!, ids.other!]) expect(stderr).toContain(id)
  const of = (node: TestNode) => execute(`${node.peerId.slice(0, 16)}/Echo`)
  expect(await of(two)).toMatchObject({ code: 0, stdout: 'hello\n' })
  expect(await of(one)).toMatchObject({ code: 0, stdout: 'hello\n' })
  expect(await execute(`${one.peerId}/Word counter`)).toMatchObject({ code: 0 })
})

test('the beginning of an id will do, and what is nobody’s name is said to be unknown', async () => {
  expect(await execute(ids.other!.slice(0, 10))).toMatchObject({ code: 0, stdout: 'hello\n' })
  expect(await execute('Nobody')).toMatchObject({ code: 3, stderr: expect.stringContaining('stoa agent discover') })
})

test('over the API an agent is read by any of these, and what spends takes its id alone', async () => {
  const get = (reference: string) => fetch(`${one.apiUrl}/agents/${encodeURIComponent(reference)}`)
  expect(await (await get('Word counter')).json()).toMatchObject({ id: ids.count })
  expect(await (await get(`${two.peerId}/Echo`)).json()).toMatchObject({ id: ids.other })
  expect([(await get('Echo')).status, (await get('Nobody')).status]).toEqual([409, 404])
  const headers = { 'content-type': 'application/json' }
  const options = { method: 'POST', headers, body: JSON.stringify({ task: 'x' }) }
  expect((await fetch(`${one.apiUrl}/agents/Word%20counter/execute`, options)).status).toBe(404)
})

test('an execution says the id of its order, and an order is found by the beginning of it', async () => {
  const { stderr } = await execute(ids.other!)
  const id = /order ([0-9a-f-]{36})/.exec(stderr)?.[1]
  expect(id).toBeDefined()
  // Ids rise with time: those of one day begin alike.
  expect(await run('order', 'show', id!.slice(0, 30))).toMatchObject({ code: 0, stdout: expect.stringContaining(id!) })
  expect(await run('order', 'show', `${id!.slice(0, 5)}…`)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('several orders start'),
  })
  expect(await run('order', 'show', 'ffffff')).toMatchObject({ code: 3, stderr: expect.stringContaining('none of') })
})
