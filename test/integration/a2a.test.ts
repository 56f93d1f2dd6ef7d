/** Free agents over A2A: the SDK's own client, both versions, both bindings; and whoever means ill. */
import { request } from 'node:http'
import { json } from 'node:stream/consumers'
import { AgentCard, TaskState } from '@a2a-js/sdk'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { TASK_BYTES_MAX } from '../../src/schema/limits.ts'
import { MARKETPLACE_PROTOCOL } from '../../src/schema/marketplace.ts'
import { a2aClient, asTask, bindings, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let seller: TestNode
let echoId: string
let slowId: string
const complaints = vi.spyOn(console, 'error').mockImplementation(() => {})
const warnings = vi.spyOn(console, 'warn').mockImplementation(() => {})

beforeAll(async () => {
  seller = await startTestNode()
  const echo = { name: 'echo', description: 'Repeats the task.', price: 0n, model: 'builtin/echo', tags: ['text'] }
  echoId = (await seller.node.registerAgent(echo, { persist: false })).id
  const command = [process.execPath, '-e', 'setInterval(() => {}, 1000)']
  const slow = { name: 'slow', description: 'Never ends.', price: 0n, command }
  slowId = (await seller.node.registerAgent(slow, { persist: false })).id
})
afterAll(() => seller?.stop())

const urlOf = (id: string) => `${seller.url}/a2a/${id}`
const read = async (path: string, init: RequestInit = {}) => {
  const response = await fetch(seller.url + path, init)
  // biome-ignore lint/suspicious/noExplicitAny: whatever the node answers is looked at field by field
  const body: any = await response.json().catch(() => undefined)
  return { status: response.status, headers: response.headers, json: body }
}

describe('cards', () => {
  test('D22 /.well-known/agent.json has a card for each agent registered here, valid for readers of 1.0 and of 0.3', async () => {
    const { json: cards } = await read('/.well-known/agent.json')
    expect(cards.map(({ name }: { name: string }) => name)).toEqual(['echo', 'slow'])
    const [card] = cards
    expect(AgentCard.fromJSON(card)).toMatchObject({
      name: 'echo',
      supportedInterfaces: expect.arrayContaining([
        expect.objectContaining({ url: urlOf(echoId), protocolBinding: 'JSONRPC', protocolVersion: '1.0' }),
      ]),
      skills: [{ id: echoId, tags: ['text'] }],
    })
    expect(card).toMatchObject({ url: urlOf(echoId), protocolVersion: '0.3.0', preferredTransport: 'JSONRPC' })
    expect(card.capabilities.extensions).toEqual([
      expect.objectContaining({
        uri: 'urn:stoa:a2a:agent:v1',
        required: false,
        params: expect.objectContaining({
          agentId: echoId,
          peerId: seller.node.peerId,
          protocols: expect.arrayContaining([MARKETPLACE_PROTOCOL]),
          price: expect.objectContaining({ amount: '0' }),
        }),
      }),
    ])
  })

  test('D22 a node without agents answers []', async () => {
    const empty = await startTestNode()
    try {
      expect(await (await fetch(`${empty.url}/.well-known/agent.json`)).text()).toBe('[]')
      expect((await fetch(`${empty.url}/.well-known/agent-card.json`)).status).toBe(200)
    } finally {
      await empty.stop()
    }
  })

  test('the card of one agent is what its reader’s version knows, and is not sent twice', async () => {
    const path = `/a2a/${echoId}/.well-known/agent-card.json`
    const old = await read(path)
    expect(old.json).toMatchObject({ url: urlOf(echoId), protocolVersion: '0.3.0' })
    const current = await read(path, { headers: { 'a2a-version': '1.0' } })
    expect(current.json).not.toHaveProperty('url')
    expect(current.headers.get('vary')).toContain('A2A-Version')
    const again = await read(path, { headers: { 'if-none-match': old.headers.get('etag')! } })
    expect(again.status).toBe(304)
    expect((await read(`/a2a/${'a'.repeat(32)}/.well-known/agent-card.json`)).json.code).toBe('UNKNOWN_AGENT')
  })

  test('the AI catalog leads to every agent and to MCP', async () => {
    const { json: catalog } = await read('/.well-known/ai-catalog.json')
    expect(catalog.specVersion).toBe('1.0')
    const cards = catalog.entries.filter(({ mediaType }: { mediaType: string }) => mediaType.includes('a2a'))
    for (const { url } of cards) expect((await fetch(url)).status).toBe(200)
    expect(cards.length).toBe(3)
    expect(JSON.stringify(catalog)).toContain(`${seller.url}/mcp`)
  })
})

describe.each(bindings)('A2A $version over $binding', (binding) => {
  const client = (id = echoId) => a2aClient(urlOf(id), binding)

  test('a message becomes a task that ends with the result', async () => {
    const task = asTask(await (await client()).sendMessage(send('hello')))
    expect([stateOf(task), resultOf(task)]).toEqual(['COMPLETED', 'hello'])
    expect(await (await client()).getTask({ tenant: '', id: task.id })).toMatchObject({ id: task.id })
  })

  test('a stream tells of submission, work, result and end, in this order', async () => {
    const events = await Array.fromAsync((await client()).sendMessageStream(send('hello')))
    expect(events.map(({ payload }) => payload?.$case)).toEqual([
      'task',
      'statusUpdate',
      'artifactUpdate',
      'statusUpdate',
    ])
    expect(events.at(-1)).toMatchObject({
      payload: { value: { status: { state: TaskState.TASK_STATE_COMPLETED } } },
    })
  })

  test('a task may have megabytes', async () => {
    const text = 'ä'.repeat(500_000)
    const task = asTask(await (await client()).sendMessage(send(text)))
    expect(resultOf(task) === text).toBe(true)
  })

  test('a task that runs can be canceled, and a second message to it is refused', async () => {
    const slow = await client(slowId)
    const configuration = { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined }
    const started = asTask(await slow.sendMessage({ ...send('go'), configuration }))
    const { id } = started
    await until(async () => stateOf(await slow.getTask({ tenant: '', id })) === 'WORKING')
    await expect(slow.sendMessage(send('again', { taskId: id }))).rejects.toThrow(/at work/)
    expect(stateOf(await slow.cancelTask({ tenant: '', id, metadata: undefined }))).toBe('CANCELED')
    expect(stateOf(await slow.getTask({ tenant: '', id }))).toBe('CANCELED')
    await expect(slow.sendMessage(send('again', { taskId: id }))).rejects.toThrow(/terminal/)
  })

  test('another can follow a task that runs', async () => {
    const slow = await client(slowId)
    const configuration = { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined }
    const { id } = asTask(await slow.sendMessage({ ...send('go'), configuration }))
    const followed = Array.fromAsync(slow.resubscribeTask({ tenant: '', id }))
    await until(async () => stateOf(await slow.getTask({ tenant: '', id })) === 'WORKING')
    await slow.cancelTask({ tenant: '', id, metadata: undefined })
    const events = await followed
    expect(events[0]?.payload?.$case).toBe('task')
    expect(events.at(-1)).toMatchObject({ payload: { value: { status: { state: TaskState.TASK_STATE_CANCELED } } } })
  })

  test('a message that is not a task is refused', async () => {
    await expect((await client()).getTask({ tenant: '', id: 'no-such-task' })).rejects.toThrow(/not found/i)
    await expect((await client()).sendMessage(send('x', { taskId: 'no-such-task' }))).rejects.toThrow(/not found/i)
    await expect((await client()).sendMessage(send('  '))).rejects.toThrow(/text/)
    await expect((await client()).sendMessage(send('x', { messageId: 'm'.repeat(200) }))).rejects.toThrow(/longer/)
    const parts = [
      {
        content: { $case: 'url' as const, value: 'https://a.example/f' },
        metadata: undefined,
        filename: '',
        mediaType: '',
      },
    ]
    await expect((await client()).sendMessage(send('x', { parts }))).rejects.toThrow(/not files/)
  })
})

test('tasks are listed by agent and by conversation, newest first, page by page', async () => {
  const client = await a2aClient(urlOf(echoId))
  const first = asTask(await client.sendMessage(send('one')))
  const { contextId } = first
  for (const text of ['two', 'three']) await client.sendMessage(send(text, { contextId }))
  const query = { tenant: '', contextId, status: 0, pageToken: '', statusTimestampAfter: undefined, pageSize: 2 }
  const page = await client.listTasks(query)
  expect([page.tasks.length, page.totalSize]).toEqual([2, 3])
  const rest = await client.listTasks({ ...query, pageToken: page.nextPageToken })
  expect(rest.tasks.map(({ id }) => id)).toContain(first.id)
  expect(rest.nextPageToken).toBe('')
  const other = await a2aClient(urlOf(slowId))
  expect((await other.listTasks(query)).tasks).toEqual([])
  await expect(other.getTask({ tenant: '', id: first.id })).rejects.toThrow(/not found/i)
  await expect(client.listTasks({ ...query, pageToken: 'nonsense' })).rejects.toThrow(/pageToken/)
})

test('the node itself is an agent that searches the market', async () => {
  const client = await a2aClient(urlOf('market'))
  const found = asTask(await client.sendMessage(send('{"skill":"discover_agents","query":"repeats"}')))
  expect(resultOf(found)).toMatchObject({ agents: [{ agent_id: echoId, name: 'echo' }] })
  expect(resultOf(asTask(await client.sendMessage(send('repeats'))))).toMatchObject({ agents: [{ agent_id: echoId }] })
  const order = { skill: 'execute_agent', agent_id: echoId, task: 'hi', max_price: '0' }
  expect(resultOf(asTask(await client.sendMessage(send(JSON.stringify(order)))))).toMatchObject({
    output: 'hi',
    payment: null,
  })
  const { max_price: _, ...unlimited } = order
  const refused = asTask(await client.sendMessage(send(JSON.stringify(unlimited))))
  expect(stateOf(refused)).toBe('FAILED')
  expect(JSON.stringify(refused.status)).toContain('max_price')
})

describe('hostile', () => {
  const rpc = (body: string, headers: Record<string, string> = {}, path = `/a2a/${echoId}`) =>
    read(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
      body,
    })
  const call = (params: unknown, method = 'SendMessage') => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const hello = { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] } }

  test.each([
    ['no JSON', '{'],
    ['nothing', ''],
    ['a batch', '[]'],
    ['null', 'null'],
    ['a number', '1'],
    ['bytes that are no UTF-8', '\xff\xfe'],
    ['a prototype', '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"__proto__":{"message":{}}}}'],
    [
      'deep nesting',
      call({ message: { ...hello.message, metadata: JSON.parse('['.repeat(5000) + ']'.repeat(5000)) } }),
    ],
    ['no parts', call({ message: { messageId: 'm', role: 'ROLE_USER', parts: [] } })],
    ['null parts', call({ message: { messageId: 'm', role: 'ROLE_USER', parts: [null] } })],
    ['text that is no text', call({ message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: { a: 1 } }] } })],
    ['a lone surrogate', call({ message: { ...hello.message, parts: [{ text: '\ud800' }] } })],
    ['an id of megabytes', call({ message: { ...hello.message, contextId: 'c'.repeat(1_000_000) } })],
    ['metadata of megabytes', call({ message: { ...hello.message, metadata: { x: 'x'.repeat(1_000_000) } } })],
    ['a thousand parts', call({ message: { ...hello.message, parts: Array(1000).fill({ text: 'x' }) } })],
    ['a task too long', call({ message: { ...hello.message, parts: [{ text: 'x'.repeat(TASK_BYTES_MAX + 1) }] } })],
    ['an unknown method', call({}, 'constructor')],
    ['an unknown version', call(hello), { 'a2a-version': '9.9' }],
  ])('T8 %s is refused in JSON-RPC, and nothing runs', async (_, body, headers: Record<string, string> = {}) => {
    const { status, json: answer } = await rpc(body, headers)
    expect(status).toBe(200)
    expect(answer).toMatchObject({ jsonrpc: '2.0', error: { code: expect.any(Number), message: expect.any(String) } })
    expect(JSON.stringify(answer)).not.toMatch(/node_modules|at .*\.ts/)
  })

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', undefined])(
    'T11 a body of type %s does nothing, as it needs no preflight',
    async (type) => {
      const before = (
        await (
          await a2aClient(urlOf(echoId))
        ).listTasks({ tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined })
      ).totalSize
      const body = Buffer.from(call(hello))
      const headers = { 'a2a-version': '1.0', ...(type !== undefined && { 'content-type': type }) }
      for (const path of ['', '/rest/message:send', '/rest/v1/message:send']) {
        const answer = await read(`/a2a/${echoId}${path}`, { method: 'POST', headers, body })
        expect(answer.json).toHaveProperty('error')
      }
      const after = (
        await (
          await a2aClient(urlOf(echoId))
        ).listTasks({ tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined })
      ).totalSize
      expect(after).toBe(before)
    },
  )

  test('T7 an endless body is cut off', async () => {
    const { status, json: problem } = await rpc('x'.repeat(9 * 1024 * 1024))
    expect([status, problem.code]).toEqual([413, 'BODY_TOO_LARGE'])
  })

  test('T19 unknown tenants share one limit of tasks', async () => {
    for (let i = 0; i < 50; i++) {
      expect((await rpc(call({ ...hello, tenant: `tenant-${i}` }))).json.result.task.status.state).toBe(
        'TASK_STATE_COMPLETED',
      )
    }
    expect((await read(`/a2a/${echoId}/rest/tasks?tenant=a`, { headers: { 'a2a-version': '1.0' } })).status).toBe(404)
  })

  test('a path that agents do not have is not found', async () => {
    for (const path of [
      `/a2a/${echoId}/else`,
      `/a2a/${echoId}/rest/else`,
      '/a2a',
      '/a2a/',
      '/a2a/%2e%2e/',
      '/a2a/__proto__',
    ]) {
      expect((await read(path, { headers: { 'a2a-version': '1.0' } })).status, path).toBe(404)
    }
    expect((await read(`/a2a/${echoId}`)).status).toBe(405)
    expect((await read(`/a2a/${echoId}`, { method: 'PATCH' })).status).toBe(405)
  })

  test('no message of a caller makes the SDK print', () => {
    expect(complaints.mock.calls).toEqual([])
    expect(warnings.mock.calls).toEqual([])
  })
})

describe('doors', () => {
  const run = { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks', params: {} }) }
  const jsonHeaders = { 'content-type': 'application/json', 'a2a-version': '1.0' }

  test('D16 cards answer pages of any origin', async () => {
    for (const path of [
      '/.well-known/agent.json',
      '/.well-known/ai-catalog.json',
      `/a2a/${echoId}/.well-known/agent-card.json`,
    ]) {
      const { status, headers } = await read(path, { headers: { origin: 'https://app.example' } })
      expect([status, headers.get('access-control-allow-origin')]).toEqual([200, '*'])
    }
  })

  test('D16 T11 running is refused to foreign pages, on every path, and open to pages of this machine', async () => {
    for (const path of ['', '/rest/message:send', '/rest/tasks', '/api']) {
      const target = path === '/api' ? `/api/a2a/${echoId}` : `/a2a/${echoId}${path}`
      const answer = await read(target, { ...run, headers: { ...jsonHeaders, origin: 'https://evil.example' } })
      expect(answer.json).toMatchObject({ status: 403, code: 'ORIGIN_NOT_ALLOWED' })
      expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    }
    const own = await read(`/a2a/${echoId}`, { ...run, headers: { ...jsonHeaders, origin: 'http://localhost:3000' } })
    expect([own.status, own.headers.get('access-control-allow-origin')]).toEqual([200, 'http://localhost:3000'])
  })

  test('T11 a rebound name is refused', async () => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    request(
      `${seller.url}/a2a/${echoId}/.well-known/agent-card.json`,
      { headers: { host: 'evil.example' } },
      (response) => json(response).then(resolve, reject),
    ).end()
    expect(await promise).toMatchObject({ status: 403, code: 'HOST_NOT_ALLOWED' })
  })

  test('D16 the preflight of a page that may names the headers of the protocol', async () => {
    const headers = { origin: 'http://localhost:3000', 'access-control-request-method': 'POST' }
    const answer = await fetch(`${seller.url}/a2a/${echoId}`, { method: 'OPTIONS', headers })
    expect(answer.headers.get('access-control-allow-headers')).toContain('a2a-version')
    expect(answer.headers.get('access-control-allow-methods')).toBe('POST, OPTIONS')
  })

  test('D16 off the loopback interface cards need no token, and everything else does', async () => {
    const open = await startTestNode({ api: { host: '0.0.0.0' }, environment: {} })
    try {
      const agent = { name: 'echo', description: 'Repeats.', price: 0n, model: 'builtin/echo' }
      const { id } = await open.node.registerAgent(agent, { persist: false })
      const cards = (await (await fetch(`${open.url}/.well-known/agent.json`)).json()) as object[]
      expect(cards[0]).toMatchObject({
        securitySchemes: { bearer: { type: 'http', httpAuthSecurityScheme: { scheme: 'Bearer' } } },
        security: [{ bearer: [] }],
      })
      expect((await fetch(`${open.url}/a2a/${id}/.well-known/agent-card.json`)).status).toBe(200)
      for (const path of [`/a2a/${id}`, `/a2a/${id}/rest/tasks`, '/a2a/market', '/mcp']) {
        const answer = await fetch(open.url + path, { ...run, headers: jsonHeaders })
        expect([path, answer.status]).toEqual([path, 401])
      }
    } finally {
      await open.stop()
    }
  })
})
