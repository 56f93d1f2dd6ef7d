/** D38 over A2A: a message that is sent again makes no second task, no second run and no second purchase. */
import { randomInt, randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { a2aClient, asTask, bindings, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { ask } from '../support/api-calls.ts'
import { begun, slowProgram } from '../support/slow-agent.ts'
import type { TestNode } from '../support/test-node.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'

const PRICE = 10_000n
let pair: TradingPair
let home: string
let buyer: TestNode
let agentId: string
let slowId: string

beforeAll(async () => {
  pair = await startTradingPair(() => [{ name: 'echo', description: 'd', price: PRICE, model: 'builtin/echo' }])
  ;({ home, buyer } = pair)
  agentId = pair.listed.echo!.id
  const slow = { name: 'slow', description: 'd', price: 0n, command: slowProgram(home, 2_000) }
  slowId = (await buyer.node.registerAgent(slow, { persist: false })).id
})
afterAll(() => pair?.stop())

const urlOf = (id: string) => `${buyer.url}/a2a/${id}`
const runs = async (task: string) => (await readdir(home)).filter((name) => name === `ended ${task}`).length
const tasksOf = async (id: string, text: string) => {
  const { tasks } = await (await a2aClient(urlOf(id))).listTasks({
    tenant: '',
    contextId: '',
    status: 0,
    pageSize: 100,
    pageToken: '',
    historyLength: undefined,
    statusTimestampAfter: undefined,
    includeArtifacts: false,
  })
  return tasks.filter(({ history }) => JSON.stringify(history).includes(text)).length
}

describe.each(bindings)('D38 an own agent over A2A $version, $binding', (binding) => {
  const kind = `own ${binding.version.replace('.', '')} ${binding.binding.replace(/\W/g, '')}`

  test('runs a message once: a second one is answered with its task while it runs and after it', async () => {
    const text = `${kind} ${randomInt(1e9)}`
    const client = await a2aClient(urlOf(slowId), binding)
    const message = send(text, { messageId: randomUUID() })
    const first = client.sendMessage(message)
    const pid = await begun(home, text)
    const second = asTask(await client.sendMessage(message))
    const task = asTask(await first)
    expect([stateOf(task), resultOf(task)]).toEqual(['COMPLETED', `slowly: ${text}`])
    expect([second.id, stateOf(second), resultOf(second)]).toEqual([task.id, 'COMPLETED', `slowly: ${text}`])
    expect(asTask(await client.sendMessage(message)).id).toBe(task.id)
    const events = await Array.fromAsync(client.sendMessageStream(message))
    expect(events).toMatchObject([{ payload: { $case: 'task', value: { id: task.id } } }])
    expect([await begun(home, text), await runs(text), await tasksOf(slowId, text)]).toEqual([pid, 1, 1])
  })

  test('a stream that broke off goes on where the same message is streamed again', async () => {
    const client = await a2aClient(urlOf(slowId), binding)
    const again = `${kind} streamed ${randomInt(1e9)}`
    const message = send(again, { messageId: randomUUID() })
    for await (const _ of client.sendMessageStream(message)) break
    const events = await Array.fromAsync(client.sendMessageStream(message))
    expect(events.map(({ payload }) => payload?.$case)).toEqual(
      expect.arrayContaining(['task', 'artifactUpdate', 'statusUpdate']),
    )
    expect(await tasksOf(slowId, again)).toBe(1)
  })
})

test('D38 T25 the market agent buys once for a message, and answers its task again', async () => {
  const order = { skill: 'execute_agent', agent_id: agentId, task: `from a2a ${randomInt(1e9)}`, max_price: '0.01' }
  const paid = async () => (await ask<unknown[]>(buyer.url, '/payments?limit=100')).length
  const before = await paid()
  const client = await a2aClient(urlOf('market'))
  const message = send(JSON.stringify(order))
  const [one, other] = await Promise.all([client.sendMessage(message), client.sendMessage(message)])
  const again = asTask(await client.sendMessage(message))
  expect([asTask(other).id, again.id]).toEqual([asTask(one).id, asTask(one).id])
  expect(stateOf(again)).toBe('COMPLETED')
  expect((await paid()) - before).toBe(1)
  const orders = await ask<{ task: string }[]>(buyer.url, '/orders?limit=100')
  expect(orders.filter(({ task }) => task === order.task)).toHaveLength(1)
})

test('D38 one id for two messages is refused, and each token has ids of its own', async () => {
  const client = await a2aClient(urlOf(slowId))
  const messageId = randomUUID()
  const mine = asTask(await client.sendMessage(send('mine', { messageId })))
  await expect(client.sendMessage(send('else', { messageId }))).rejects.toThrow(/IDEMPOTENCY_CONFLICT/)
  const { token } = await ask<{ token: string }>(buyer.url, '/tokens', { body: { name: 'ann', scope: 'execute' } })
  const withToken: typeof fetch = (url, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${token}`)
    return fetch(url, { ...init, headers })
  }
  const anns = await a2aClient(urlOf(slowId), undefined, withToken)
  const theirs = asTask(await anns.sendMessage(send('else', { messageId })))
  expect(theirs.id).not.toBe(mine.id)
})

test('a message that was refused may be sent again', async () => {
  const client = await a2aClient(urlOf(slowId))
  const message = send('no such task', { messageId: randomUUID(), taskId: randomUUID() })
  for (let tries = 0; tries < 2; tries++) await expect(client.sendMessage(message)).rejects.toThrow(/not found/i)
})
