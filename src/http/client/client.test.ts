import { expect, test } from 'vitest'
import {
  balanceFixture,
  type FakeParts,
  fakeServer,
  listingFixture,
  localId,
  peerFixture,
  remoteId,
  resultFixture,
  statusFixture,
} from '../../../test/support/fake-api.ts'
import type { ExecuteRequest } from '../../buying/execute.ts'
import { CodedError } from '../../lib/errors.ts'
import { createApiClient } from './client.ts'

const baseUrl = 'http://127.0.0.1:8424/'

/** The client on the server, without a socket between. */
function connect(changes: Partial<FakeParts> = {}, token?: string) {
  const sent: { url: string; init: RequestInit }[] = []
  const { app } = fakeServer(changes)
  const inject = async (input: string | URL | Request, init: RequestInit = {}) => {
    const url = String(input)
    sent.push({ url, init })
    const response = await app.inject({
      method: init.method as 'GET' | 'POST',
      url: new URL(url).pathname,
      headers: init.headers as Record<string, string>,
      ...(init.body !== undefined && { payload: init.body as string }),
    })
    return new Response(response.body, { status: response.statusCode })
  }
  return { sent, client: createApiClient({ baseUrl, token }, { fetch: inject as typeof fetch }) }
}
const answering = (answer: () => Promise<Response>) => createApiClient({ baseUrl }, { fetch: answer as typeof fetch })

test('reads every answer into what the node holds in memory', async () => {
  const { client } = connect()
  expect(await client.health()).toEqual({ status: 'ok' })
  expect(await client.agents()).toEqual([listingFixture({ id: localId, local: true }), listingFixture()])
  expect((await client.localAgents()).map(({ id }) => id)).toEqual([localId])
  expect((await client.discoveredAgents()).map(({ id }) => id)).toEqual([remoteId])
  expect((await client.agent(remoteId)).price).toBe(10_000n)
  expect(await client.status()).toEqual(statusFixture)
  expect(await client.peers()).toEqual([peerFixture])
  expect(await client.balance()).toEqual(balanceFixture)
})

test('D7 D46 a price, a limit and the wish for a transaction arrive exactly as they were given', async () => {
  const seen: ExecuteRequest[] = []
  const { client } = connect({
    execute: async (request) => {
      seen.push(request)
      return resultFixture()
    },
  })
  const definition = { name: 'A', description: 'B', price: 249n }
  expect(await client.registerAgent(definition)).toMatchObject({ price: 249n, price_atomic: '249' })
  expect(await client.execute({ agentId: remoteId, input: 'go', maxPriceAtomic: 249n })).toEqual(resultFixture())
  expect(seen[0]).toMatchObject({ agentId: remoteId, input: 'go', maxPriceAtomic: 249n })
  expect(seen[0]).not.toHaveProperty('awaitsSettlement')
  await client.execute({ agentId: remoteId, input: 'go', awaitsSettlement: true })
  await client.execute({ agentId: remoteId, input: 'go', awaitsSettlement: false, channel: 'never' })
  expect(seen.slice(1)).toMatchObject([{ awaitsSettlement: true }, { awaitsSettlement: false, channel: 'never' }])
})

test('sends the token, no second slash, and follows no redirect', async () => {
  const { client, sent } = connect({}, 'a-token')
  await client.health()
  expect(sent[0]?.url).toBe('http://127.0.0.1:8424/health')
  expect(sent[0]?.init).toMatchObject({ headers: { authorization: 'Bearer a-token' }, redirect: 'error' })
})

test('an id is one segment of the path, whatever it holds', async () => {
  const { client, sent } = connect()
  await expect(client.agent('../status')).rejects.toMatchObject({ code: 'UNKNOWN_AGENT' })
  expect(sent[0]?.url).toBe('http://127.0.0.1:8424/agents/..%2Fstatus')
})

test('D15 a problem arrives as an error with its code, status and fields', async () => {
  const { client } = connect({ execute: () => Promise.reject(new CodedError('OVER_BUDGET', 'raise --daily-budget')) })
  await expect(client.execute({ agentId: remoteId, input: 'go' })).rejects.toMatchObject({
    name: 'ApiError',
    code: 'OVER_BUDGET',
    status: 402,
    message: 'raise --daily-budget',
    problem: { type: '/docs#OVER_BUDGET' },
  })
})

test.each([
  ['no JSON', new Response('<html>', { status: 200 })],
  ['other JSON', new Response('{"hello":1}', { status: 200 })],
  ['an error that is no problem', new Response('Bad Gateway', { status: 502 })],
])('says so when another program answers: %s', async (_, response) => {
  await expect(answering(async () => response).status()).rejects.toMatchObject({ code: 'API_ANSWER_INVALID' })
})

test('says what to do when no node answers', async () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:8424'), { code: 'ECONNREFUSED' })
  const client = answering(() => Promise.reject(new TypeError('fetch failed', { cause: refused })))
  await expect(client.status()).rejects.toMatchObject({
    code: 'API_UNREACHABLE',
    message: expect.stringMatching(/stoa start/),
  })
})

test('T23 says that an execution may have happened when the connection breaks', async () => {
  const reset = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' })
  const client = answering(() => Promise.reject(new TypeError('fetch failed', { cause: reset })))
  const lost = client.execute({ agentId: remoteId, input: 'go' })
  await expect(lost).rejects.toMatchObject({
    code: 'API_CONNECTION_LOST',
    message: expect.stringMatching(/may have been done/),
  })
})

test('D38 what may spend and is sent again keeps its key, also where the key is given as undefined', async () => {
  const keys: unknown[] = []
  const reset = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' })
  const fetch = (_url: unknown, { headers }: RequestInit) => {
    keys.push((headers as Record<string, string>)['idempotency-key'])
    return Promise.reject(new TypeError('fetch failed', { cause: reset }))
  }
  const client = createApiClient({ baseUrl }, { fetch: fetch as typeof globalThis.fetch })
  const call = { idempotencyKey: undefined }
  const lost = { code: 'API_CONNECTION_LOST' }
  await expect(client.execute({ agentId: remoteId, input: 'go' }, call)).rejects.toMatchObject(lost)
  await expect(client.createOrder({ agentId: remoteId, price: 1n }, call)).rejects.toMatchObject(lost)
  const [first, , third] = keys
  expect(keys).toEqual([first, first, third, third])
  expect(keys).toEqual(Array(4).fill(expect.any(String)))
})

test('an id without data is where a lost stream of events goes on', async () => {
  const asked: unknown[] = []
  const fetch = async (_url: unknown, { headers }: RequestInit) => {
    asked.push((headers as Record<string, string>)['last-event-id'])
    return new Response(asked.length === 1 ? 'id: x-7\n\n' : 'id: x-9\nevent: reset\ndata: {}\n\n')
  }
  const client = createApiClient({ baseUrl }, { fetch: fetch as typeof globalThis.fetch })
  const events = client.events()
  expect((await events.next()).value).toEqual({ id: 'x-9', type: 'reset' })
  expect(asked).toEqual([undefined, 'x-7'])
  await events.return(undefined)
})

test('waits no longer than it is told, and throws the reason of an abort', async () => {
  const never: typeof fetch = (_input, init) => {
    const { promise, reject } = Promise.withResolvers<Response>()
    const signal = init?.signal
    if (signal?.aborted) reject(signal.reason)
    signal?.addEventListener('abort', () => reject(signal.reason))
    return promise
  }
  const client = createApiClient({ baseUrl }, { fetch: never })
  await expect(client.status({ timeoutMs: 1 })).rejects.toMatchObject({ code: 'API_TIMEOUT' })
  const reason = new Error('Ctrl-C')
  await expect(client.status({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
})

test.each([
  [
    { price: 249n, max_price: 20_000n },
    { price: 0.000249, max_price: 0.02 },
  ],
  [{ max_price: null }, { max_price: null }],
  [{ description: 'B' }, { description: 'B' }],
])('a change of an own agent is sent with its amounts in USDC', async (change, body) => {
  const { client, sent } = connect()
  await client.updateAgent('a', change).catch(() => {})
  expect(JSON.parse(String(sent[0]?.init.body))).toEqual(body)
})
