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
/** A body that is almost right gets further than one that is not. */
const field = <T>(right: fc.Arbitrary<T>) => fc.oneof({ arbitrary: right, weight: 3 }, { arbitrary: value, weight: 1 })
const fields = {
  agent_id: field(fc.constantFrom(localId, remoteId)),
  task: field(text),
  input: field(text),
  max_price: field(fc.oneof(number, number.map(String))),
  name: field(fc.string({ minLength: 1 })),
  description: field(fc.string({ minLength: 1 })),
  price: field(fc.constantFrom(0, 0.01, 1e6)),
  model: field(text),
  tags: field(fc.array(text)),
  timeout_seconds: field(number),
  command: value,
}
const body = fc.oneof(fc.record(fields, { requiredKeys: [] }), value).map((json) => JSON.stringify(json))
const payload = fc.oneof({ arbitrary: body, weight: 4 }, { arbitrary: fc.string({ unit: 'binary' }), weight: 1 })
const headers = fc.record(
  {
    'content-type': fc.constantFrom(
      'application/json',
      'application/json',
      'application/json',
      'text/plain',
      'application/json; charset=x',
      '',
    ),
    origin: fc.constantFrom('http://localhost:1', 'https://evil.example', 'null', ''),
    host: fc.constantFrom('localhost', '127.0.0.1:1', 'evil.example', ''),
    'sec-fetch-site': fc.constantFrom('same-origin', 'cross-site', 'none', 'x'),
    'content-encoding': fc.constantFrom('gzip', 'identity'),
    authorization: fc.constantFrom('Bearer x', 'Bearer ', 'x'),
    'access-control-request-method': fc.constantFrom('POST', 'GET', 'x'),
  },
  { requiredKeys: [] },
)
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
    const request = fc.record({
      prefix: fc.constantFrom('', '/api'),
      id: fc.oneof({ arbitrary: segment.map(escaped), weight: 4 }, { arbitrary: fc.webSegment(), weight: 1 }),
      query,
      headers,
      payload,
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
        if (response.statusCode < 400) return
        expect(response.headers['content-type']).toMatch(/^application\/problem\+json/)
        if (sent.method === 'HEAD') return
        const problem = Problem.parse(response.json())
        expect(problem.status).toBe(response.statusCode)
      }),
      { numRuns: method === 'POST' ? 400 : 60 },
    )
  },
)
