import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { fakeDeps, fakeServer, localId, remoteId } from '../../test/support/fake-api.ts'
import { Problem } from '../schema/api.ts'
import { apiOperations } from './operations.ts'

const rows = apiOperations(fakeDeps())
const faults: object[] = []
const logger = fakeDeps().logger
const { app } = fakeServer({ logger: { ...logger, error: (fields) => faults.push(fields) } })
afterAll(() => app.close())

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
  '../..',
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
const rarely = mostly(fc.constant(undefined))
const execution = {
  task: mostly(text),
  input: rarely,
  max_price: fc.option(mostly(fc.constantFrom<unknown>(0.25, '0.25'), fc.oneof(number, number.map(String))), {
    nil: undefined,
  }),
  extra: rarely,
}
const bodies: Record<string, fc.Arbitrary<unknown>> = {
  '/agents': fc.record({
    name: mostly(fc.string({ minLength: 1 })),
    description: mostly(fc.string({ minLength: 1 })),
    price: mostly(fc.constantFrom(0, 0.01, 1e6)),
    model: fc.option(mostly(fc.string({ minLength: 1 })), { nil: undefined }),
    tags: fc.option(mostly(fc.array(fc.string({ minLength: 1, maxLength: 9 }), { maxLength: 3 })), { nil: undefined }),
    timeout_seconds: fc.option(mostly(fc.nat()), { nil: undefined }),
    command: rarely,
    extra: rarely,
  }),
  '/execute': fc.record({ agent_id: mostly(fc.constantFrom(localId, remoteId)), ...execution }),
  '/agents/{id}/execute': fc.record({ agent_id: rarely, ...execution }),
}
const payloadFor = (path: string) =>
  mostly(
    mostly(bodies[path] ?? value).map((json) => JSON.stringify(json)),
    fc.string({ unit: 'binary' }),
  ) as fc.Arbitrary<string>
const header = (right: string, ...wrong: string[]) => mostly(fc.constant(right), fc.constantFrom(...wrong))
const headers = fc.record({
  'content-type': header('application/json', 'text/plain', 'application/json; charset=x', ''),
  host: header('localhost', '127.0.0.1:1', 'evil.example', ''),
  origin: header('http://localhost:1', 'https://evil.example', 'null', ''),
  'sec-fetch-site': header('same-origin', 'cross-site', 'none', 'x'),
  'content-encoding': header('identity', 'gzip'),
  authorization: header('Bearer x', 'Bearer ', 'x'),
  'access-control-request-method': header('POST', 'GET', 'x'),
}) as fc.Arbitrary<Record<string, string>>
const segment = fc.oneof({ arbitrary: fc.constantFrom(localId, remoteId), weight: 2 }, { arbitrary: text, weight: 1 })
const query = fc.oneof(
  { arbitrary: fc.constant(''), weight: 3 },
  { arbitrary: fc.webQueryParameters().map((parameters) => `?${parameters}`), weight: 1 },
)

/** Lone surrogates have no percent escape. */
const escaped = (raw: string) => encodeURIComponent(raw.toWellFormed())

test.each(rows.map((row) => [row.method, row.path] as const))(
  'T8 nothing that is sent to %s %s makes the node fail',
  async (method, path) => {
    let taken = 0
    const request = fc.record({
      prefix: fc.constantFrom('', '/api'),
      id: fc.oneof({ arbitrary: segment.map(escaped), weight: 4 }, { arbitrary: fc.webSegment(), weight: 1 }),
      query,
      headers,
      payload: payloadFor(path),
      method: fc.oneof(
        { arbitrary: fc.constant(method), weight: 8 },
        {
          arbitrary: fc.constantFrom('OPTIONS' as const, 'HEAD' as const, 'DELETE' as const, 'PATCH' as const),
          weight: 1,
        },
      ),
    })
    await fc.assert(
      fc.asyncProperty(request, async (sent) => {
        faults.length = 0
        const response = await app.inject({
          method: sent.method,
          url: sent.prefix + path.replace('{id}', sent.id) + sent.query,
          headers: sent.headers,
          ...(method === 'POST' && { payload: sent.payload }),
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
      { numRuns: method === 'POST' ? 500 : 60 },
    )
    // Otherwise the requests were not what this test thinks they are.
    expect(taken).toBeGreaterThan(5)
  },
)
