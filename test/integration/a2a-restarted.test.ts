/** D38 over A2A: the ids of messages outlive the process. What was run before a restart is not run again by the same message. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { a2aClient, asTask, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { ask } from '../support/api-calls.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let home: string
const walletKey = generatePrivateKey()
const nodes: TestNode[] = []
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-a2a-restarted-'))
})
afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.stop()))
  await rm(home, { recursive: true, force: true })
})

/** Notes each of its runs, and ends with this exit code. `hangs`: its first run does not end by itself. */
async function start(name: string, exitCode: number, { hangs = false } = {}) {
  const file = join(home, `${name} runs`)
  const program = `
    const { appendFileSync, readFileSync } = require('node:fs')
    const task = readFileSync(0, 'utf8')
    appendFileSync(${JSON.stringify(file)}, task + '\\n')
    const isFirst = readFileSync(${JSON.stringify(file)}, 'utf8') === task + '\\n'
    if (${hangs} && isFirst) setTimeout(() => {}, 60_000)
    process.stdout.write('re: ' + task)
    process.exitCode = ${exitCode}`
  const node = await startTestNode({ walletKey, dataDir: join(home, name) })
  nodes.push(node)
  const agent = { name, description: 'd', price: 0n, command: [process.execPath, '-e', program] }
  const { id } = await node.node.registerAgent(agent, { persist: false })
  const runs = async () => (await readFile(file, 'utf8').catch(() => '')).split('\n').length - 1
  const stop = () => nodes.splice(nodes.indexOf(node), 1)[0]!.stop()
  return { url: node.url, agentUrl: `${node.url}/a2a/${id}`, runs, stop }
}

test.each([
  ['COMPLETED', 0],
  ['FAILED', 1],
])('D38 T17 a message whose task was %s is answered with it after a restart, and runs nothing', async (state, code) => {
  const name = `agent ${code}`
  const before = await start(name, code)
  const message = send('once', { messageId: randomUUID() })
  const first = asTask(await (await a2aClient(before.agentUrl)).sendMessage(message))
  expect(stateOf(first)).toBe(state)
  await before.stop()

  const { agentUrl, runs } = await start(name, code)
  const client = await a2aClient(agentUrl)
  const again = asTask(await client.sendMessage(message))
  expect([again.id, again.contextId, stateOf(again)]).toEqual([first.id, first.contextId, state])
  if (code === 0) expect(resultOf(again)).toBe('re: once')
  const events = await Array.fromAsync(client.sendMessageStream(message))
  expect(events).toMatchObject([{ payload: { $case: 'task', value: { id: first.id } } }])
  expect(await runs()).toBe(1)
  const other = send('another', { messageId: message.message!.messageId })
  await expect(client.sendMessage(other)).rejects.toThrow(/IDEMPOTENCY_CONFLICT/)
  expect(await runs()).toBe(1)
})

test('D38 D48 after a restart too an id is its principal’s alone', async () => {
  const before = await start('shared', 0)
  const { token } = await ask<{ token: string }>(before.url, '/tokens', { body: { name: 'ann', scope: 'execute' } })
  const message = send('mine', { messageId: randomUUID() })
  const mine = asTask(await (await a2aClient(before.agentUrl)).sendMessage(message))
  await before.stop()

  const { agentUrl, runs } = await start('shared', 0)
  const withToken: typeof fetch = (url, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${token}`)
    return fetch(url, { ...init, headers })
  }
  const anns = await a2aClient(agentUrl, undefined, withToken)
  const theirs = asTask(await anns.sendMessage(message))
  expect([theirs.id === mine.id, await runs()]).toEqual([false, 2])
})

test('D38 what the end of the node has cut off runs again for the same message: nothing came of it', async () => {
  const before = await start('cut off', 0, { hangs: true })
  const message = send('go on', { messageId: randomUUID() })
  const left = (await a2aClient(before.agentUrl)).sendMessage(message).catch(() => undefined)
  await until(async () => (await before.runs()) === 1)
  await before.stop()
  await left

  const { agentUrl, runs } = await start('cut off', 0, { hangs: true })
  const done = asTask(await (await a2aClient(agentUrl)).sendMessage(message))
  expect([stateOf(done), resultOf(done), await runs()]).toEqual(['COMPLETED', 're: go on', 2])
})
