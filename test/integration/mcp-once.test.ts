/** D38 over MCP: a call that is sent again buys nothing again, and one that is canceled spends nothing it has not spent. */
import { randomInt, randomUUID } from 'node:crypto'
import { PassThrough } from 'node:stream'
import type { Client } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serveMcpStdio } from '../../src/mcp/stdio.ts'
import { ask } from '../support/api-calls.ts'
import { type Answer, type Era, McpClients } from '../support/mcp-clients.ts'
import { begun, gone, hasEnded, slowProgram } from '../support/slow-agent.ts'
import type { TestNode } from '../support/test-node.ts'
import { startTradingPair, type TradingPair } from '../support/trading-pair.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
type Order = { id: string; status: string; output?: string; task: string; payment?: { amount: string } }

let pair: TradingPair
let home: string
let buyer: TestNode
let agentId: string
let slowId: string
let ownSlowId: string
const clients = new McpClients()

beforeAll(async () => {
  const paid = { description: 'd', price: PRICE }
  pair = await startTradingPair((dir) => [
    { ...paid, name: 'echo', model: 'builtin/echo' },
    { ...paid, name: 'slow', command: slowProgram(dir, 3_000) },
    { ...paid, name: 'broken', command: [process.execPath, '-e', 'process.exit(3)'] },
  ])
  ;({ home, buyer } = pair)
  ;[agentId, slowId] = [pair.listed.echo!.id, pair.listed.slow!.id]
  const own = { ...paid, name: 'own', command: slowProgram(home, 60_000) }
  ownSlowId = (await buyer.node.registerAgent(own, { persist: false })).id
})
afterAll(async () => {
  await clients.close()
  await pair?.stop()
})

const connect = (era: Era) => clients.overHttp(buyer.url, era)
const execute = (client: Client, args: object, signal?: AbortSignal) =>
  client.callTool(
    { name: 'execute_agent', arguments: { max_price: '0.01', ...args } },
    signal && { signal },
  ) as Promise<Answer>
const payments = async () => (await ask<unknown[]>(buyer.url, '/payments?limit=100')).length
const orderOf = async (task: string) =>
  (await ask<Order[]>(buyer.url, '/orders?limit=100')).find((order) => order.task === task)

test.each(['auto', 'legacy'] as const)('a paid call over MCP (%s) that fails names its order', async (era) => {
  const client = await connect(era)
  const task = `fails ${era}`
  const failed = await execute(client, { agent_id: pair.listed.broken!.id, task })
  expect(failed).toMatchObject({ isError: true, _meta: { 'stoa/error': { code: 'EXECUTION_FAILED' } } })
  const { order_id } = failed._meta!['stoa/error'] as { order_id: string }
  expect(failed.content[0]!.text).toContain(order_id)
  const known = (await client.callTool({ name: 'get_execution', arguments: { order_id } })) as Answer
  expect(known.structuredContent).toMatchObject({ execution: { id: order_id, status: 'failed', task } })
})

test.each(['auto', 'legacy'] as const)('D38 T25 idempotency_key over MCP (%s) buys once', async (era) => {
  const args = { agent_id: agentId, task: `once ${era}`, idempotency_key: randomUUID() }
  const before = await payments()
  const client = await connect(era)
  const [one, other] = await Promise.all([execute(client, args), execute(client, args)])
  const again = await execute(await connect(era), args)
  const ids = [one, other, again].map(({ structuredContent }) => structuredContent?.order_id)
  expect(new Set(ids).size).toBe(1)
  expect((await payments()) - before).toBe(1)
  const conflict = await execute(client, { ...args, task: 'another' })
  expect(conflict).toMatchObject({ isError: true, _meta: { 'stoa/error': { code: 'IDEMPOTENCY_CONFLICT' } } })
})

describe.each(['auto', 'legacy'] as const)('D38 a client over HTTP (%s) cancels', (era) => {
  test('before anything is signed: the run stops, and nothing is paid', async () => {
    const client = await connect(era)
    const before = await payments()
    const task = `unsigned ${era} ${randomInt(1e9)}`
    const canceling = new AbortController()
    const called = execute(client, { agent_id: ownSlowId, task }, canceling.signal).catch((error: Error) => error)
    const pid = await begun(home, task)
    canceling.abort()
    await called
    await gone(pid)
    await until(async () => (await orderOf(task))?.status === 'failed')
    expect([hasEnded(home, task), await payments()]).toEqual([false, before])
  })

  test('after the signature: the order goes on, and get_execution has its result', async () => {
    const client = await connect(era)
    const task = `signed ${era} ${randomInt(1e9)}`
    const canceling = new AbortController()
    const called = execute(client, { agent_id: slowId, task }, canceling.signal).catch((error: Error) => error)
    await begun(home, task)
    canceling.abort()
    await called
    const { id } = (await orderOf(task))!
    const done = await until(
      async () => {
        const { structuredContent } = (await client.callTool({
          name: 'get_execution',
          arguments: { order_id: id },
        })) as Answer
        const execution = structuredContent!.execution as Order
        return execution.status === 'completed' ? execution : undefined
      },
      { timeoutMs: 60_000 },
    )
    expect(done).toMatchObject({ output: `slowly: ${task}`, payment: { amount: '0.01' } })
  })
})

/** A client of 2025 by hand, whose connections are the test's. */
async function post(message: object, session?: string, signal?: AbortSignal): Promise<Response> {
  return fetch(`${buyer.url}/mcp`, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(session !== undefined && { 'mcp-session-id': session }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    ...(signal && { signal }),
  })
}
const toolCall = (id: number, args: object) => ({
  id,
  method: 'tools/call',
  params: { name: 'execute_agent', arguments: { max_price: '0.01', ...args } },
})
const cancel = (requestId: number) => ({ method: 'notifications/cancelled', params: { requestId } })
async function newSession(): Promise<string> {
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } }
  const answer = await post({ id: 0, method: 'initialize', params })
  await answer.text()
  return answer.headers.get('mcp-session-id')!
}

describe('D38 a client of 2025', () => {
  test('that closes its request has spent nothing', async () => {
    const closed = `closed ${randomInt(1e9)}`
    const leaving = new AbortController()
    const called = post(toolCall(1, { agent_id: ownSlowId, task: closed }), undefined, leaving.signal)
    const read = called.then((answer) => answer.text()).catch(() => 'left')
    const pid = await begun(home, closed)
    leaving.abort()
    expect(await read).toBe('left')
    await gone(pid)
  })

  test('that cancels after the signature is told, where it still listens, that its order goes on', async () => {
    const session = await newSession()
    const told = `told ${randomInt(1e9)}`
    const answer = post(toolCall(1, { agent_id: slowId, task: told }), session).then((one) => one.text())
    await begun(home, told)
    expect((await post(cancel(1), session)).status).toBe(202)
    const { id } = (await orderOf(told))!
    expect(await answer).toMatch(new RegExp(`RESULT_PENDING.*${id}`))
  })

  test('cancels its own call alone: another session counts its requests alike', async () => {
    const [mine, other] = [await newSession(), await newSession()]
    expect(mine).not.toBe(other)
    const [own, theirs] = [`mine ${randomInt(1e9)}`, `of another ${randomInt(1e9)}`]
    const answers = [
      post(toolCall(1, { agent_id: ownSlowId, task: own }), mine),
      post(toolCall(1, { agent_id: slowId, task: theirs }), other),
    ].map(async (answer) => (await answer).text())
    const pid = await begun(home, own)
    await begun(home, theirs)
    await post(cancel(1), mine)
    expect(await answers[0]).toContain('ORDER_CANCELLED')
    await gone(pid)
    expect(await answers[1]).toContain(`slowly: ${theirs}`)
  })
})

/** `stoa mcp`, spoken to by hand. `asked`: the tool calls that reach the node. */
async function overStdio(send: typeof fetch = fetch) {
  const [input, output] = [new PassThrough(), new PassThrough()]
  let asked = 0
  const counting: typeof fetch = (url, init) => {
    if (String(init?.body).includes('"tools/call"')) asked++
    return send(url, init)
  }
  const ending = new AbortController()
  const deps = { input, output, fetch: counting, tell: () => {}, signal: ending.signal }
  const serving = serveMcpStdio(
    { version: '1' },
    { ...deps, findNode: async () => ({ url: buyer.url, token: undefined }) },
  )
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } }
  const write = (message: object) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  let said = ''
  output.on('data', (chunk) => {
    said += chunk
  })
  write({ id: 0, method: 'initialize', params })
  await until(() => said !== '')
  write({ method: 'notifications/initialized' })
  return {
    write,
    said: () => said,
    asked: () => asked,
    async end() {
      ending.abort()
      await serving
    },
  }
}

test('D38 stoa mcp over stdio asks again with its own key when the connection was lost, and buys once', async () => {
  let lost = 0
  const stdio = await overStdio(async (url, init) => {
    const answer = await fetch(url, init)
    if (lost > 0 || !String(init?.body).includes('"tools/call"')) return answer
    lost++
    await answer.text()
    throw new TypeError('fetch failed: the connection was lost')
  })
  const before = await payments()
  stdio.write(toolCall(1, { agent_id: agentId, task: 'over stdio' }))
  await until(() => /"id":1\D/.test(stdio.said()))
  await stdio.end()
  expect(lost).toBe(1)
  expect(stdio.said()).toContain('over stdio')
  expect(stdio.said()).not.toContain('NODE_UNREACHABLE')
  expect((await payments()) - before).toBe(1)
})

describe('D38 a program that cancels a call of stoa mcp over stdio', () => {
  test('before anything is signed: the run stops, nothing is paid, and the call is not made again', async () => {
    const stdio = await overStdio()
    const before = await payments()
    const task = `unsigned over stdio ${randomInt(1e9)}`
    stdio.write(toolCall(1, { agent_id: ownSlowId, task }))
    const pid = await begun(home, task)
    stdio.write(cancel(1))
    await gone(pid)
    await until(async () => (await orderOf(task))?.status === 'failed')
    // It serves on, and has not answered the call that nobody waits for.
    stdio.write({ id: 2, method: 'tools/list' })
    await until(() => /"id":2\D/.test(stdio.said()))
    expect(stdio.said()).not.toMatch(/"id":1\D/)
    await stdio.end()
    expect([hasEnded(home, task), await payments(), stdio.asked()]).toEqual([false, before, 1])
  })

  test('after the signature: the order goes on, is paid for once, and get_execution has its result', async () => {
    const stdio = await overStdio()
    const before = await payments()
    const task = `signed over stdio ${randomInt(1e9)}`
    stdio.write(toolCall(1, { agent_id: slowId, task }))
    await begun(home, task)
    stdio.write(cancel(1))
    const { id } = (await orderOf(task))!
    await until(async () => (await orderOf(task))?.status === 'completed')
    stdio.write({ ...toolCall(2, {}), params: { name: 'get_execution', arguments: { order_id: id } } })
    await until(() => /"id":2\D/.test(stdio.said()))
    expect(stdio.said()).toContain(`slowly: ${task}`)
    await stdio.end()
    expect([(await payments()) - before, stdio.asked()]).toEqual([1, 2])
  })
})
