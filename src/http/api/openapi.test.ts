import type { LightMyRequestResponse } from 'fastify'
import { expect, test } from 'vitest'
import * as z from 'zod'
import {
  fakeDeps,
  fakeListings,
  fakeServer,
  listingFixture,
  localId,
  loopbackOptions,
  remoteId,
} from '../../../test/support/fake-api.ts'
import { fakeLedger } from '../../../test/support/fake-ledger.ts'
import { fakeMarket, heldApproval } from '../../../test/support/fake-market.ts'
import { receiptFixture } from '../../../test/support/fake-receipts.ts'
import type { JsonSchema, OpenApi } from './openapi.ts'
import { openApiDocument } from './openapi.ts'
import { apiOperations } from './operations.ts'

const rows = apiOperations(fakeDeps())
const document = openApiDocument(rows, '1.2.3')
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
)

function* nodesOf(value: unknown): Generator<JsonSchema> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield value as JsonSchema
  for (const inner of Object.values(value)) yield* nodesOf(inner)
}

/** A schema of the document as a zod one. */
function readSchema(schema: JsonSchema): z.ZodType {
  const text = JSON.stringify({ ...schema, $defs: document.components.schemas })
  return z.fromJSONSchema(JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/')))
}

test('D13 describes every row of the table once, with an operationId of its own', () => {
  const described = operations.map(({ path, method }) => `${method} ${path}`)
  expect(described.toSorted()).toEqual(rows.map(({ method, path }) => `${method} ${path}`).toSorted())
  const ids = operations.map(({ operation }) => operation.operationId)
  expect(new Set(ids).size).toBe(ids.length)
})

test('D14 whatever is created says where it is', () => {
  expect(rows.filter(({ status, location }) => status === 201 && location === undefined).map(({ id }) => id)).toEqual(
    [],
  )
})

test('D13 names both prefixes as servers', () => {
  expect(document.servers.map(({ url }) => url)).toEqual(['/', '/api'])
})

test('every reference resolves, and none is left where OpenAPI has no place for it', () => {
  for (const node of nodesOf(document)) {
    expect(node).not.toHaveProperty('$defs')
    expect(node).not.toHaveProperty('$schema')
    if (typeof node.$ref !== 'string') continue
    const name = /^#\/components\/schemas\/(\w+)$/.exec(node.$ref)?.[1]
    expect(document.components.schemas).toHaveProperty(name ?? node.$ref)
  }
})

test('every response of every operation has a media type and a schema', () => {
  for (const { operation } of operations) {
    expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(['400', '403', '500', '503', 'default']))
    for (const [status, response] of Object.entries(operation.responses)) {
      expect(status).toMatch(/^([1-5][0-9]{2}|default)$/)
      expect(response.description).not.toBe('')
      const contents = Object.entries(response.content)
      const others = contents.map(([media]) => media).slice(1)
      expect(others.filter((media) => media !== 'text/event-stream')).toEqual(
        operation.operationId === 'exportReceipts' && status === '200' ? ['text/csv'] : [],
      )
      const isError = status === 'default' || Number(status) >= 400
      if (isError) expect(contents[0]?.[0]).toBe('application/problem+json')
      expect(Object.keys(contents[0]?.[1].schema ?? {})).not.toEqual([])
    }
  }
})

test('path parameters are those of the path, and required', () => {
  for (const { path, operation } of operations) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const described = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path')
    expect(described.map(({ name }) => name)).toEqual(inPath)
    expect(described.every(({ required }) => required)).toBe(true)
  }
})

const localTo = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'

/** They say all they need to by their path. */
const bodiless = [
  'replaceTransaction',
  'abandonTransaction',
  'retryPayment',
  'testDoors',
  'refundPayment',
  'pauseAgent',
  'reloadAgents',
  'resumeAgent',
  'testWebhook',
  'probeEntry',
  'testSource',
  'closeChannel',
  'withdrawFromChannel',
  'approve',
  'deny',
]

test('every operation that acts describes its body, with an example that fits', () => {
  for (const { method, operation } of operations) {
    if ((method !== 'POST' && method !== 'PATCH') || bodiless.includes(operation.operationId)) continue
    const { schema, example } = operation.requestBody?.content['application/json'] ?? { schema: {} }
    expect(example).toBeDefined()
    expect(readSchema(schema).safeParse(example).error).toBeUndefined()
  }
})

test('D16 only /health and /.well-known need no token anywhere', () => {
  const open = operations.filter(({ operation }) => operation.security.length === 0)
  const paths = open.map(({ path }) => path)
  expect(paths.filter((path) => !path.startsWith('/.well-known/'))).toEqual(['/health'])
  expect(paths).toContain('/.well-known/agent.json')
})

test('what is sent is what the document says', async () => {
  const buyer = await fakeMarket(fakeListings, { rules: { autoApproveBelowAtomic: 0n } })
  const { orders, workflows } = buyer
  const { paymentId, channelId, ready, ...kept } = fakeLedger()
  await ready
  const { app } = fakeServer({ ...buyer, ...kept, execute: fakeDeps().buyer.execute })
  const agent = { name: 'A', description: 'B', price: 0 }
  const said = await orders.create({ agentId: localId, price: 0n, task: 'go' })
  await orders.settled(said.id, { limitMs: 5_000 })
  const [first, second] = [
    await orders.create({ agentId: 'x', price: 1n }),
    await orders.create({ agentId: 'x', price: 1n }),
  ]
  const webhook = {
    url: 'https://example.org/hook',
    events: ['order'],
    secret: 'a secret of some length'.replaceAll(' ', '-').padEnd(24, 'x'),
  }
  const token = await buyer.tokens.create({ name: 'a', scope: 'read' })
  const held = () => heldApproval(buyer, listingFixture())
  const [asked, denied, several] = [await held(), await held(), await held()]
  const chain = { input: 'go', agentIds: [localId, localId] }
  const done: { id: string } = (await app.inject({ url: '/workflows', method: 'POST', payload: chain })).json()
  await workflows.settled(done.id, { limitMs: 5_000 })
  const calls: Record<string, object> = {
    getAgent: { url: `/agents/${remoteId}` },
    testDoors: { url: '/doors/test', method: 'POST' },
    registerAgent: { url: '/agents', method: 'POST', payload: agent },
    importAgent: { url: '/imports', method: 'POST', payload: { peer: 'x', agent_id: 'y', price: '0.01' } },
    removeImport: { url: `/imports/${remoteId}`, method: 'DELETE' },
    execute: { url: '/execute', method: 'POST', payload: { agent_id: localId, input: 'go' } },
    executeAgent: { url: `/agents/${localId}/execute`, method: 'POST', payload: { task: 'go' } },
    createOrder: { url: '/orders', method: 'POST', payload: { agent_id: localId, price: '0', task: 'go' } },
    getOrder: { url: `/orders/${said.id}?wait=1` },
    executeOrder: { url: `/orders/${first.id}/execute`, method: 'POST', payload: { task: 'go' } },
    cancelOrder: { url: `/orders/${second.id}`, method: 'DELETE' },
    getReputation: { url: '/agents/reputation/0' },
    registerOnchain: { url: `/agents/${localId}/register-onchain`, method: 'POST', payload: {} },
    giveFeedback: { url: `/agents/${remoteId}/feedback`, method: 'POST', payload: { score: 90 } },
    replaceTransaction: { url: `/transactions/0x${'1'.repeat(64)}/replace`, method: 'POST' },
    abandonTransaction: { url: `/transactions/0x${'1'.repeat(64)}/abandon`, method: 'POST' },
    refundPayment: {
      ...{ url: `/payments/${paymentId}/refund`, method: 'POST' },
      headers: { authorization: `Bearer ${loopbackOptions.token}` },
    },
    sendFromWallet: {
      ...{ url: '/wallet/send', method: 'POST', payload: { to: localTo, amount: '1', network: 'eip155:84532' } },
      headers: { authorization: `Bearer ${loopbackOptions.token}` },
    },
    getReceipt: { url: `/receipts/${receiptFixture.payment_id}` },
    getX402Receipt: { url: `/receipts/${receiptFixture.payment_id}/x402` },
    listSessions: { url: `/sessions/${localId}` },
    getSession: { url: `/sessions/${localId}/local?limit=1` },
    createWorkflow: { url: '/workflows?dry_run=true', method: 'POST', payload: chain },
    getWorkflow: { url: `/workflows/${done.id}` },
    updateAgent: { url: `/agents/${localId}`, method: 'PATCH', payload: { price: 0.02 } },
    removeAgent: { url: `/agents/${localId}`, method: 'DELETE' },
    reloadAgents: { url: '/agents/reload', method: 'POST' },
    tryAgent: { url: '/agents/try', method: 'POST', payload: { agent, task: 'go' } },
    testAgent: { url: `/agents/${localId}/test`, method: 'POST', payload: { task: 'go' } },
    getChannel: { url: `/channels/${channelId}` },
    openChannel: { url: '/channels', method: 'POST', payload: { agent_id: localId, deposit: '0.5' } },
    closeChannel: { url: `/channels/${channelId}/close`, method: 'POST' },
    recoverChannels: { url: '/channels/recover', method: 'POST', payload: { days: 7 } },
    withdrawFromChannel: { url: `/channels/${channelId}/withdraw`, method: 'POST' },
    getPayment: { url: `/payments/${paymentId}` },
    retryPayment: { url: `/payments/${paymentId}/retry`, method: 'POST' },
    getExecution: { url: '/executions/1' },
    createWebhook: { url: '/webhooks', method: 'POST', payload: webhook },
    removeWebhook: { url: '/webhooks/fresh0fresh0', method: 'DELETE' },
    searchSources: { url: '/sources/entries?q=x' },
    probeEntry: { url: `/sources/entries/url_${'0'.repeat(40)}/probe`, method: 'POST' },
    testSource: { url: '/sources/cdp/test', method: 'POST' },
    testWebhook: { url: '/webhooks/fresh0fresh0/test', method: 'POST' },
    createToken: { url: '/tokens', method: 'POST', payload: { name: 'a', scope: 'read' } },
    revokeWorker: { url: '/workers/fresh0fresh0', method: 'DELETE' },
    revokeToken: { url: `/tokens/${token.id}`, method: 'DELETE' },
    changeBudget: { url: '/budget', method: 'PUT', payload: { per_month: '100', auto_approve_below: null } },
    getApproval: { url: `/approvals/${asked}` },
    approve: { url: `/approvals/${asked}/approve`, method: 'POST' },
    deny: { url: `/approvals/${denied}/deny`, method: 'POST' },
    decideApprovals: { url: '/approvals/decide', method: 'POST', payload: { ids: [several], verdict: 'denied' } },
    cancelWorkflow: { url: `/workflows/${done.id}`, method: 'DELETE' },
    dismissAlarm: { url: '/alarms/agent_failing-0/dismiss', method: 'POST', payload: {} },
  }
  const own = { pause: 'pauseAgent', resume: 'resumeAgent' }
  for (const [verb, id] of Object.entries(own)) calls[id] = { url: `/agents/${localId}/${verb}`, method: 'POST' }
  const refused = ['cancelWorkflow']
  for (const { path, operation } of operations) {
    const response = await app.inject(calls[operation.operationId] ?? { url: path })
    expect([operation.operationId, response.statusCode < 400]).toEqual([
      operation.operationId,
      !refused.includes(operation.operationId),
    ])
    const content = operation.responses[response.statusCode]?.content ?? {}
    const [media = '', { schema } = { schema: {} }] = Object.entries(content)[0] ?? []
    expect(response.headers['content-type']).toContain(media)
    const body: unknown = media.endsWith('json') ? response.json() : response.body
    expect(readSchema(schema).safeParse(body).error).toBeUndefined()
  }
  await Promise.all(buyer.services.map((service) => service.stop()))
})

test('a list that has more says where: the next page is the same request with its cursor', async () => {
  const { orders, services } = await fakeMarket(fakeListings)
  const { app } = fakeServer({ orders })
  for (let count = 0; count < 5; count++) await orders.create({ agentId: remoteId, price: BigInt(count) })
  const pages: string[][] = []
  for (let url: string | undefined = '/api/orders?limit=2&status=pending'; url !== undefined; ) {
    const response: LightMyRequestResponse = await app.inject(url)
    pages.push((response.json() as { price: string }[]).map(({ price }) => price))
    const { link } = response.headers
    url = typeof link === 'string' ? `/api/orders${/^<(\?[^>]+)>; rel="next"$/.exec(link)?.[1]}` : undefined
  }
  expect(pages).toEqual([['0.000004', '0.000003'], ['0.000002', '0.000001'], ['0']])
  await Promise.all(services.map((service) => service.stop()))
})

test('the document is the one that is served', async () => {
  const served: OpenApi = (await fakeServer({ version: '1.2.3' }).app.inject('/openapi.json')).json()
  expect(served).toEqual(JSON.parse(JSON.stringify(document)))
})

test('a body of execute is one schema, a plain object with both spellings, so that generated clients have its type', () => {
  for (const name of ['Execute', 'ExecuteAgent', 'ExecuteOrder']) {
    const schema = document.components.schemas[name]!
    expect(schema).toMatchObject({
      type: 'object',
      properties: { task: { type: 'string' }, input: { type: 'string' } },
    })
    expect(schema).not.toHaveProperty('anyOf')
    expect(schema.required ?? []).not.toContain('task')
  }
})

test('an operation with an identifier in its path says that one may be too long', () => {
  for (const { path, operation } of operations) {
    expect([path, '414' in operation.responses]).toEqual([path, path.includes('{')])
  }
})
