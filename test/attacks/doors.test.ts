/** Section 4 of the attacks: what comes in by the API, beside an operator who goes on working. */
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { StrictAgentCard } from '../support/agent-card.ts'
import { ask, call } from '../support/api-calls.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let node: TestNode
let closed: TestNode
let paidId: string
let freeId: string
const TOKEN = 'the-operator-has-this-one'

beforeAll(async () => {
  node = await startTestNode()
  const register = (name: string, price: bigint) =>
    node.node.registerAgent({ name, description: 'd', price, model: 'builtin/echo' }, { persist: false })
  paidId = (await register('paid', 50_000n)).id
  freeId = (await register('free', 0n)).id
  closed = await startTestNode({ api: { requireToken: true }, apiToken: TOKEN })
})
afterAll(async () => {
  await closed?.stop()
  await node?.stop()
})

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
async function tokenOf(scope: string): Promise<Record<string, string>> {
  const body = { name: scope, scope, ...(scope === 'spend' && { budget: '1' }) }
  return bearer((await ask<{ token: string }>(node.url, '/tokens', { body })).token)
}
type Problem = { code: string }

describe('D48 a paid agent of the node', () => {
  test.each(['execute', 'spend'])('is not run unpaid for a token of %s, by any way in', async (scope) => {
    const headers = await tokenOf(scope)
    for (const path of [`/agents/${paidId}/execute`, '/execute']) {
      const body = path === '/execute' ? { agent_id: paidId, input: 'x' } : { task: 'x' }
      const { status, body: problem } = await call(node.url, path, { body, headers })
      expect([status, (problem as Problem).code]).toEqual([403, 'SCOPE_TOO_LOW'])
    }
    expect(await call(node.url, `/agents/${paidId}/test`, { body: { task: 'x' }, headers })).toMatchObject({
      status: 403,
      body: { code: 'SCOPE_TOO_LOW' },
    })
    const order = { agent_id: paidId, price: '1', task: 'x' }
    const { id } = await ask<{ id: string }>(node.url, '/orders', { body: order, headers })
    expect(await ask(node.url, `/orders/${id}?wait=10`)).toMatchObject({
      status: 'failed',
      error: { code: 'SCOPE_TOO_LOW' },
    })
    const flow = { agent_ids: [paidId], input: 'x' }
    const workflow = await ask<{ id: string }>(node.url, '/workflows', { body: flow, headers })
    expect(await ask(node.url, `/workflows/${workflow.id}?wait=10`)).toMatchObject({ status: 'failed' })
    expect((await ask<{ error?: string }[]>(node.url, '/executions')).length).toBe(0)
  })

  test('runs unpaid for the operator and for admin, and a free one for execute', async () => {
    const admin = await tokenOf('admin')
    for (const headers of [{}, admin]) {
      expect((await call(node.url, '/execute', { body: { agent_id: paidId, input: 'x' }, headers })).status).toBe(200)
    }
    const headers = await tokenOf('execute')
    expect((await call(node.url, '/execute', { body: { agent_id: freeId, input: 'x' }, headers })).status).toBe(200)
  })
})

describe('ADR-19 a sign of a proxy', () => {
  test.each([
    'x-forwarded-proto',
    'x-forwarded-host',
    'cf-connecting-ip',
    'x-real-ip',
    'true-client-ip',
    'x-original-host',
  ])('needs the token: %s', async (name) => {
    expect((await call(node.url, '/status', { headers: { [name]: 'x' } })).body).toMatchObject({
      code: 'TOKEN_REQUIRED',
    })
    expect((await call(node.url, '/status')).status).toBe(200)
  })

  test('needs the token: HTTP/1.0', async () => {
    const { port } = new URL(node.url)
    const answer = await new Promise<string>((resolve, reject) => {
      let text = ''
      const socket = connect(Number(port), '127.0.0.1', () =>
        socket.write('GET /status HTTP/1.0\r\nHost: localhost\r\n\r\n'),
      )
      socket.on('data', (chunk) => (text += chunk.toString()))
      socket.on('end', () => resolve(text))
      socket.on('error', reject)
    })
    expect(answer).toContain('TOKEN_REQUIRED')
  })
})

test('D16 T11 a flood of wrong tokens from one address does not shut out the right token', async () => {
  const codes = new Set<string>()
  for (let round = 0; round < 40; round++) {
    const { body } = await call(closed.url, '/status', { headers: bearer(`wrong-${round}`) })
    codes.add((body as Problem).code)
    if (round % 10 === 0) expect((await call(closed.url, '/status', { headers: bearer(TOKEN) })).status).toBe(200)
  }
  expect([...codes]).toContain('TOO_MANY_ATTEMPTS')
  expect(['TOKEN_WRONG', 'TOO_MANY_ATTEMPTS']).toEqual(expect.arrayContaining([...codes]))
  expect((await call(closed.url, '/status', { headers: bearer(TOKEN) })).status).toBe(200)
})

test('D16 T11 a flood of wrong tokens leaves the operator’s own calls as quick as they were', {
  retry: 2,
}, async () => {
  const wrong = (headers: Record<string, string>) => call(closed.url, '/status', { headers })
  await expectBearable(
    async () => expect((await call(closed.url, '/status', { headers: bearer(TOKEN) })).status).toBe(200),
    async (round) => {
      for (let count = 0; count < 40; count++) {
        const tries = Array.from({ length: 2 }, (_, n) => wrong(bearer(`wrong-${round}-${count}-${n}`)))
        for (const { status } of await Promise.all(tries)) expect([401, 429]).toContain(status)
      }
    },
  )
})

test('T19 a token that fills its share of open orders shuts out nobody', async () => {
  const headers = await tokenOf('execute')
  const order = (more: object) => call(node.url, '/orders', { body: { agent_id: 'nobody', price: '1' }, ...more })
  for (let round = 0; round < 10; round++) await Promise.all(Array.from({ length: 100 }, () => order({ headers })))
  expect((await order({ headers })).body).toMatchObject({ code: 'ORDERS_TOO_MANY' })
  expect((await order({})).status).toBe(201)
  expect((await order({ headers: await tokenOf('execute') })).status).toBe(201)
})

test('T19 a token with endless orders leaves the operator’s calls as quick as before', {
  retry: 2,
}, async () => {
  const headers = await tokenOf('execute')
  const body = { agent_id: 'nobody', price: '1' }
  await expectBearable(
    async () => {
      const run = { agent_id: freeId, input: 'hello' }
      expect((await call(node.url, '/execute', { body: run })).status).toBe(200)
    },
    async () => {
      for (let count = 0; count < 40; count++) {
        const orders = Array.from({ length: 2 }, () => call(node.url, '/orders', { body, headers }))
        for (const { status } of await Promise.all(orders)) expect([201, 429]).toContain(status)
      }
    },
  )
})

describe('D48 a principal owns what it made', () => {
  test('over the API: orders, workflows, executions, sessions and what happens', async () => {
    const [ann, bob] = [await tokenOf('execute'), await tokenOf('execute')]
    const body = { agent_id: freeId, input: 'a secret of ann' }
    const { order_id, session_id } = await ask<{ order_id: string; session_id: string }>(node.url, '/execute', {
      body,
      headers: ann,
    })
    const flow = { agent_ids: [freeId], input: 'another secret' }
    const { id } = await ask<{ id: string }>(node.url, '/workflows', { body: flow, headers: ann })
    await ask(node.url, `/workflows/${id}?wait=10`)
    const [execution] = await ask<{ id: string }[]>(node.url, '/executions', { headers: ann })
    expect(execution).toBeDefined()
    const lists = [
      '/orders',
      '/workflows',
      '/executions',
      '/payments',
      '/receipts',
      '/approvals',
      `/sessions/${freeId}`,
    ]
    for (const path of lists) {
      expect(JSON.stringify((await call(node.url, path, { headers: bob })).body), path).not.toContain('secret')
      expect((await call(node.url, path)).status, path).toBe(200)
    }
    const ones = [
      `/orders/${order_id}`,
      `/workflows/${id}`,
      `/executions/${execution!.id}`,
      `/sessions/${freeId}/local`,
    ]
    for (const path of ones) {
      expect((await call(node.url, path, { headers: bob })).status, path).toBe(404)
      expect((await call(node.url, path, { headers: ann })).status, path).toBe(200)
      expect((await call(node.url, path)).status, path).toBe(200)
    }
    for (const path of [`/orders/${order_id}`, `/workflows/${id}`]) {
      expect((await call(node.url, path, { method: 'DELETE', headers: bob })).status, path).toBe(404)
    }
    const operators = await ask<{ session_id: string }>(node.url, '/execute', { body })
    expect(operators.session_id).not.toBe(session_id)
  })

  test('GET /stats sums up what a token asked for alone', async () => {
    const headers = await tokenOf('execute')
    type Stats = { days: { executions: number }[]; agents: { calls: number }[] }
    const counts = async (more: object = {}) => {
      const { days, agents } = await ask<Stats>(node.url, '/stats', more)
      return [days.at(-1)?.executions ?? 0, agents[0]?.calls ?? 0]
    }
    const before = await counts()
    expect(await counts({ headers })).toEqual([0, 0])
    const body = { agent_id: freeId, input: 'counted' }
    await ask(node.url, '/execute', { body, headers })
    expect(await counts({ headers })).toEqual([1, 1])
    expect((await counts())[0]).toBe(before[0]! + 1)
    await ask(node.url, '/execute', { body: { ...body, input: 'of the operator' } })
    expect(await counts({ headers })).toEqual([1, 1])
  })

  test('GET /events tells a token of its own orders and workflows, and of what is everybody’s', async () => {
    const [ann, bob] = [await tokenOf('execute'), await tokenOf('execute')]
    const following = new AbortController()
    const follow = async (headers: Record<string, string>) => {
      const answer = await fetch(`${node.url}/events`, { headers, signal: following.signal })
      const seen = { text: '' }
      void (async () => {
        for await (const chunk of answer.body!) seen.text += Buffer.from(chunk).toString()
      })().catch(() => {})
      return seen
    }
    const [anns, bobs, operators] = await Promise.all([follow(ann), follow(bob), follow({})])
    const run = (task: string, headers: Record<string, string>) =>
      ask<{ id: string }>(node.url, '/workflows', { body: { agent_ids: [freeId], input: task }, headers })
    const { id: annsId } = await run('followed by ann', ann)
    const { id: bobsId } = await run('followed by bob', bob)
    await Promise.all([annsId, bobsId].map((id) => ask(node.url, `/workflows/${id}?wait=10`)))
    const definition = { name: 'for everybody', description: 'd', price: 0, model: 'builtin/echo' }
    await ask(node.url, '/agents', { body: definition })
    const all = [anns, bobs, operators]
    await until(() => all.every(({ text }) => text.includes('for everybody')))
    following.abort()
    const told = ({ text }: { text: string }) => [
      /event: workflow\ndata: [^\n]*followed by ann/.test(text) && text.includes(annsId),
      /event: order\ndata: [^\n]*followed by ann/.test(text),
      /event: workflow\ndata: [^\n]*followed by bob/.test(text) && text.includes(bobsId),
      /event: order\ndata: [^\n]*followed by bob/.test(text),
    ]
    expect(all.map(told)).toEqual([
      [true, true, false, false],
      [false, false, true, true],
      [true, true, true, true],
    ])
    expect(anns.text).not.toContain(bobsId)
  })

  test('over A2A: a task is listed, read, continued and canceled by its own principal', async () => {
    const [ann, bob] = [await tokenOf('execute'), await tokenOf('execute')]
    const rpc = (method: string, params: object, headers: Record<string, string>) =>
      ask<{ result?: { task?: { id: string }; tasks?: unknown[] }; error?: { code: number } }>(
        node.url,
        `/a2a/${freeId}`,
        {
          body: { jsonrpc: '2.0', id: 1, method, params },
          headers: { ...headers, 'a2a-version': '1.0' },
        },
      )
    const message = { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'a secret of ann' }] }
    const { result } = await rpc('SendMessage', { message }, ann)
    const id = result!.task!.id
    expect((await rpc('ListTasks', {}, bob)).result).toMatchObject({ tasks: [] })
    expect((await rpc('ListTasks', {}, ann)).result!.tasks).toHaveLength(1)
    expect((await rpc('ListTasks', {}, {})).result!.tasks).toContainEqual(expect.objectContaining({ id }))
    expect((await rpc('GetTask', { id }, ann)).error).toBeUndefined()
    const continued = { message: { ...message, messageId: 'm-2', taskId: id } }
    for (const [method, params] of [
      ['GetTask', { id }],
      ['CancelTask', { id }],
      ['SendMessage', continued],
    ] as const) {
      expect((await rpc(method, params, bob)).error, method).toMatchObject({ code: -32001 })
    }
  })
})

test('D22 the card of the node is what the version of its reader asks for, also of a node that needs a token', async () => {
  const path = '/.well-known/agent-card.json'
  const current = await ask<object>(closed.url, path, { headers: { 'a2a-version': '1.0' } })
  expect(Object.keys(current)).not.toEqual(expect.arrayContaining(['url']))
  expect(current).toMatchObject({ securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } } })
  expect(JSON.stringify(current)).not.toContain('"type":"http"')
  const older = await ask<object>(closed.url, path)
  expect(older).toMatchObject({ protocolVersion: '0.3.0', securitySchemes: { bearer: { type: 'http' } } })
})

test('D22 every card of a node that needs a token is valid for a strict reader of A2A 1.0', async () => {
  const definition = { description: 'd', model: 'builtin/echo' }
  const register = (name: string, price: bigint) =>
    closed.node.registerAgent({ ...definition, name, price }, { persist: false })
  const ids = [await register('a free one', 0n), await register('a paid one', 10_000n)].map(({ id }) => id)
  const root = '/.well-known/agent-card.json'
  for (const path of [root, ...['market', ...ids].map((id) => `/a2a/${id}${root}`)]) {
    const card = await ask<object>(closed.url, path, { headers: { 'a2a-version': '1.0' } })
    const read = StrictAgentCard.safeParse(card)
    expect([path, read.error?.issues]).toEqual([path, undefined])
    expect(card, path).toMatchObject({ securityRequirements: [{ schemes: { bearer: { list: [] } } }] })
  }
})
