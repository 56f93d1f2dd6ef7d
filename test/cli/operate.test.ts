/** Commands of those who run a node, against a running node. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import { startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { cli } from './harness.ts'

let node: TestNode
beforeAll(async () => {
  node = await startTestNode({ key: generatePrivateKey(), apiEnabled: true })
  await node.registerAgent({ name: 'Echo', description: 'repeats', price: 500_000n, model: 'builtin/echo' })
})
afterAll(stopTestNodes)

const run = (...argv: string[]) => cli(argv, { dataDir: node.dataDir, parts: systemParts })
const stateOf = async () => (await run('agent', 'list')).stdout.split('\n')[1]

test('a narrow terminal cuts no id, because the API takes whole ids only', async () => {
  const { id } = node.listings()[0]!
  const { stdout } = await cli(['agent', 'list'], { dataDir: node.dataDir, parts: systemParts, tty: true, columns: 60 })
  expect(stdout).toContain(id)
})

test('an agent is tried, repriced, paused, resumed and removed by its name', async () => {
  expect(await stateOf()).toMatch(/^Echo +0\.5 USDC +on sale +0 +0 +0 /)
  expect(await run('agent', 'test', 'Echo', '--task', 'hello')).toMatchObject({ code: 0, stdout: 'hello\n' })
  expect(await run('agent', 'update', 'Echo', '--price', '0.25')).toMatchObject({ code: 0 })
  expect(await run('agent', 'pause', 'Echo')).toMatchObject({ code: 0, stdout: 'Echo: paused\n' })
  expect(await stateOf()).toMatch(/^Echo +0\.25 USDC +paused/)
  expect(await run('agent', 'resume', 'Echo')).toMatchObject({ code: 0, stdout: 'Echo: on sale\n' })
  expect(await run('agent', 'remove', 'Echo', '--json')).toMatchObject({ code: 0 })
  expect(await run('agent', 'list')).toMatchObject({ code: 0, stdout: expect.stringContaining('no agents') })
})

test('the error of a failed program says where to find its output', async () => {
  await node.registerAgent({ name: 'Broken', description: 'fails', price: 0n, command: ['false'] })
  const { code, stderr } = await run('agent', 'test', 'Broken', '--task', 'x')
  expect(code).toBe(5)
  expect(stderr).toBe("error: the agent's program failed with exit status 1 (`stoa logs` shows its output)\n")
  expect(await run('agent', 'remove', 'Broken')).toMatchObject({ code: 0 })
})

test('errors of missing or unknown agents say what to do', async () => {
  expect(await run('agent', 'pause', 'Nobody')).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('agent list'),
  })
  for (const own of [
    ['session', 'list'],
    ['agent', 'register-onchain'],
  ])
    expect(await run(...own)).toMatchObject({ code: 2, stderr: expect.stringContaining('`stoa agent list` lists') })
  expect(await run('agent', 'update', 'Echo')).toMatchObject({ code: 2, stderr: expect.stringContaining('--price') })
  expect(await run('payment', 'show')).toMatchObject({ code: 2, stderr: expect.stringContaining('payment list') })
  expect(await run('payment', 'retry', `0x${'0'.repeat(64)}`)).toMatchObject({ code: 3 })
  expect(await run('payment', 'show', '0x0123ab…')).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('none of'),
  })
  expect(await run('payment', 'show', 'abc')).toMatchObject({ code: 2, stderr: expect.stringContaining('64 hex') })
  expect(await run('payment', 'list', '--state', 'gone')).toMatchObject({ code: 2 })
  const imported = (peer: string, price: string) =>
    run('agent', 'import', '--peer', peer, '--agent-id', 'x', '--price', price)
  expect(await imported('junk', '0')).toMatchObject({ code: 2, stderr: expect.stringContaining('--peer: "junk"') })
  expect(await imported('junk', 'abc')).toMatchObject({ code: 2, stderr: expect.stringContaining('--price: "abc"') })
})

test('a new node shows no earnings and no payments', async () => {
  expect(await run('payment', 'list')).toMatchObject({ code: 0, stdout: 'no payments\n' })
  const { code, stdout } = await run('earnings')
  expect([code, stdout.split('\n')[3]]).toEqual([0, 'total    0       0'])
  expect(JSON.parse((await run('earnings', '--json')).stdout)).toMatchObject({ earned: { total_atomic: '0' } })
})
