import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  fakeDeps,
  fakeServer,
  listingFixture,
  localId,
  loopbackOptions,
  remoteId,
} from '../../../test/support/fake-api.ts'
import { fakeLedger } from '../../../test/support/fake-ledger.ts'
import { fakeMarket, heldApproval } from '../../../test/support/fake-market.ts'
import { receiptFixture } from '../../../test/support/fake-receipts.ts'
import { fromSchema, type Hints, type JsonSchema, valueFor } from '../../../test/support/schema-arbitrary.ts'
import { Problem } from '../../schema/api.ts'
import { openApiDocument } from '../api/openapi.ts'
import { apiOperations } from '../api/operations.ts'

const document = openApiDocument(apiOperations(fakeDeps()), '1.0.0')
const { schemas } = document.components
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
)

/** Names and values that parsers and prototypes have stumbled over. */
const awkward = [
  '',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  '\0',
  '\ud800',
  '\u202e',
  '%',
  '../../..',
  '💸',
  'null',
  '-0',
  '1e400',
  'NaN',
  '0x10',
  localId,
  remoteId,
  'x'.repeat(300),
]
const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom(...awkward))
const number = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(-0, 1e-7, 2 ** 53, 1e21, 5e-324))
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 4 },
    text,
    number,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('any'), { maxLength: 4 }),
    fc.dictionary(text, tie('any'), { maxKeys: 4 }),
  ),
})).any
/** What is almost right gets further than what is not. */
const mostly = <T>(right: fc.Arbitrary<T>, wrong: fc.Arbitrary<unknown> = value) =>
  fc.oneof({ arbitrary: right, weight: 12 }, { arbitrary: wrong, weight: 1 })

/** Stands for an order, or a workflow, that was made for this very request: an action on it uses it up. */
const FRESH = 'fresh0fresh0'
const id = fc.constantFrom(localId, remoteId)
const price = fc.constantFrom('0.25', '1', '0', '1e-3')
/** What no schema can say: which agents there are, and what is decimal. */
const hints: Hints = {
  agent_id: id,
  agent_ids: fc.array(id, { minLength: 1, maxLength: 3 }),
  agentIds: fc.array(id, { minLength: 1, maxLength: 3 }),
  fallback: fc.constantFrom([], [remoteId]),
  input: fc.constantFrom('go', '{{input}}', 'a \\{{ b'),
  max_price: price,
  budget: price,
  per_day: price,
  callerID: fc.constant('local'),
  agentID: fc.constant(localId),
  url: fc.constant('https://example.org/hook'),
  ids: fc.constantFrom([FRESH], [FRESH, 'unknown']),
  events: fc.constantFrom(['order'], ['payment.settled', 'listing']),
  secret: fc.constant('x'.repeat(24)),
  wait: fc.constantFrom(0, -1, 'x'),
  cursor: fc.constantFrom('1', '999'),
  since: fc.constantFrom('2026-01-01T00:00:00Z', '2026-02-30', 'x'),
  until: fc.constantFrom('2126-01-01T00:00:00+01:00', '2026'),
}
function hintsFor(path: string): Hints {
  if (path.startsWith('/receipts')) {
    return { ...hints, id: fc.constantFrom(receiptFixture.payment_id, 'unknown'), cursor: fc.constant('7.9') }
  }
  if (path.startsWith('/sources')) {
    return {
      ...hints,
      id: fc.constantFrom(`url_${'0'.repeat(40)}`, 'unknown'),
      name: fc.constantFrom('cdp', 'unknown'),
    }
  }
  const one = path.startsWith('/agents') ? id : fc.constant(path.startsWith('/executions') ? '1' : FRESH)
  const isDefinition = path === '/agents' || path === '/agents/try' || path === '/agents/{id}'
  const cursor = path === '/payments' || path === '/channels' ? { cursor: fc.constantFrom('1.1', '0.999') } : {}
  // Most definitions have a plain price: few pairs of a price and prices by use go together.
  const priced = {
    price: fc.constantFrom(0, 0.01, 1e6),
    pricing: fc.constantFrom(undefined, { per_call: 0.001, max: 0.01 }),
  }
  return { ...hints, ...cursor, id: one, ...(isDefinition ? priced : { price }) }
}

const broken = fc.string({ unit: 'binary' })
/** Fields that do not go together: a body is also written without those of one side. */
const agentOrUrl = [
  ['url', 'method', 'headers', 'body', 'expected'],
  ['agent_id', 'agentId', 'channel'],
]
const exclusive: Record<string, readonly string[][]> = {
  '/execute': agentOrUrl,
  '/orders': agentOrUrl,
  // Only the scope `spend` has them.
  '/tokens': [['budget', 'per_day']],
}
function without(schema: JsonSchema, names: readonly string[]): JsonSchema {
  const named = schema.$ref === undefined ? schema : (schemas[String(schema.$ref).split('/').at(-1)!] as JsonSchema)
  const left = Object.entries((named.properties ?? {}) as JsonSchema).filter(([name]) => !names.includes(name))
  return { ...named, properties: Object.fromEntries(left) }
}

function payloadFor(path: string, schema: JsonSchema | undefined): fc.Arbitrary<string> {
  const options = { schemas, hints: hintsFor(path), wrong: value }
  const parts = schema === undefined ? [] : (exclusive[path] ?? []).map((names) => without(schema, names))
  const whole = { arbitrary: schema === undefined ? value : fromSchema(schema, options), weight: 1 }
  const body = fc.oneof(whole, ...parts.map((part) => ({ arbitrary: fromSchema(part, options), weight: 4 })))
  return mostly(
    body.map((json) => JSON.stringify(json) ?? 'null'),
    broken,
  ) as fc.Arbitrary<string>
}
const header = (right: string, ...wrong: string[]) => mostly(fc.constant(right), fc.constantFrom(...wrong))
const headers = fc.record({
  'content-type': header('application/json', 'text/plain', 'application/json; charset=x', ''),
  host: header('localhost', '127.0.0.1:1', 'evil.example', ''),
  origin: header('http://localhost:1', 'https://evil.example', 'null', ''),
  'sec-fetch-site': header('same-origin', 'cross-site', 'none', 'x'),
  'content-encoding': header('identity', 'gzip'),
  authorization: header(`Bearer ${loopbackOptions.token}`, 'Bearer ', 'x'),
  'access-control-request-method': header('POST', 'GET', 'x'),
}) as fc.Arbitrary<Record<string, string>>

/** Lone surrogates have no percent escape. */
const escaped = (raw: unknown) => encodeURIComponent(String(raw).toWellFormed())

type Parameters = NonNullable<(typeof operations)[number]['operation']['parameters']>
function urlFor(path: string, parameters: Parameters = []): fc.Arbitrary<string> {
  const options = { schemas, hints: hintsFor(path), wrong: text }
  const given = (place: 'path' | 'query') =>
    Object.fromEntries(
      parameters
        .filter((parameter) => parameter.in === place)
        .map(({ name, schema }) => [name, valueFor(name, schema, options)]),
    )
  const known = fc
    .record(given('query'), { requiredKeys: [] })
    .map((values) => Object.entries(values).map(([name, text]) => `${escaped(name)}=${escaped(text)}`))
    .map((pairs) => (pairs.length === 0 ? '' : `?${pairs.join('&')}`))
  const query = fc.oneof(
    { arbitrary: known, weight: 12 },
    { arbitrary: fc.webQueryParameters().map((parameters) => `?${parameters}`), weight: 1 },
  )
  const segments = mostly(
    fc.record(given('path')).map(escapeAll),
    fc.webSegment().map((segment) => ({ any: segment })),
  )
  return fc
    .tuple(fc.constantFrom('', '/api'), segments as fc.Arbitrary<Record<string, string>>, query)
    .map(([prefix, values, search]) => {
      const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? values.any ?? 'x')
      return prefix + filled + search
    })
}
function escapeAll(values: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, raw]) => [name, escaped(raw)]))
}

/** The API over the real orders, sessions and workflows; own agents hang when told to. */
async function startServer(faults: object[]) {
  const listings = [listingFixture({ id: localId, local: true }), listingFixture()]
  const buyer = await fakeMarket(() => listings, {
    rules: { autoApproveBelowAtomic: 0n },
    runOwn: async (_id, { input, signal }) => (input === 'hang' ? await hung(signal) : input),
  })
  const done = await buyer.orders.create({ agentId: localId, price: 0n, task: 'hello' })
  await buyer.orders.settled(done.id, { limitMs: 5_000 })
  const logger = { ...fakeDeps().logger, error: (fields: object) => faults.push(fields) }
  const { orders, sessions, workflows, tokens, budget, approvals } = buyer
  const { paymentId, channelId, ready, ...kept } = fakeLedger()
  await ready
  return {
    buyer,
    paymentId,
    channelId,
    app: fakeServer({ orders, sessions, workflows, tokens, budget, approvals, ...kept, logger }).app,
  }
}
function hung(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
type Started = Awaited<ReturnType<typeof startServer>>
async function freshFor(path: string, { buyer, paymentId, channelId }: Started): Promise<string> {
  const { orders, workflows, tokens } = buyer
  if (path.startsWith('/payments/')) return paymentId
  if (path.startsWith('/channels/')) return channelId
  if (path.startsWith('/alarms/')) return 'agent_failing-0'
  if (path.startsWith('/orders/')) return (await orders.create({ agentId: localId, price: 0n })).id
  if (path.startsWith('/approvals/')) return heldApproval(buyer, listingFixture())
  if (path.startsWith('/tokens/')) {
    return (await tokens.create({ name: 'a', scope: 'read' })).id
  }
  if (!path.startsWith('/workflows/')) return FRESH
  const step = { id: 'a', agentId: localId, retries: 0, fallback: [], input: undefined, dependsOn: undefined }
  const workflow = { name: undefined, input: 'hang', budget: undefined, steps: [{ ...step, maxPrice: undefined }] }
  return (await workflows.create(workflow)).id
}

test.each(operations.map((row) => [row.method, row.path, row] as const))(
  'T8 nothing that is sent to %s %s makes the node fail',
  async (method, path, { operation }) => {
    const faults: object[] = []
    const started = await startServer(faults)
    const { app, buyer } = started
    let taken = 0
    const request = fc.record({
      url: urlFor(path, operation.parameters),
      headers,
      payload: payloadFor(path, operation.requestBody?.content['application/json']?.schema),
      method: fc.oneof(
        { arbitrary: fc.constant(method), weight: 8 },
        { arbitrary: fc.constantFrom('OPTIONS', 'HEAD', 'DELETE', 'PATCH'), weight: 1 },
      ),
    })
    await fc.assert(
      fc.asyncProperty(request, async (sent) => {
        faults.length = 0
        const fresh = await freshFor(path, started)
        const response = await app.inject({
          method: sent.method as 'GET',
          url: sent.url.replace(FRESH, fresh),
          headers: sent.headers,
          ...(method !== 'GET' && { payload: sent.payload.replace(FRESH, fresh) }),
        })
        expect(faults).toEqual([])
        expect(response.statusCode).toBeLessThan(500)
        if (response.statusCode < 400) {
          if (sent.method === method) taken++
          return
        }
        expect(response.headers['content-type']).toMatch(/^application\/problem\+json/)
        if (sent.method === 'HEAD') return
        const problem = Problem.parse(response.json())
        expect(problem.status).toBe(response.statusCode)
      }),
      // Of bodies whose fields exclude each other, most are refused.
      { numRuns: method === 'GET' ? 250 : path in exclusive ? 1_000 : 500 },
    )
    // Otherwise the requests were not what this test thinks they are.
    expect(taken).toBeGreaterThan(5)
    await Promise.all(buyer.services.map((service) => service.stop()))
    await app.close()
  },
)
