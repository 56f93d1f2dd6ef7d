import { expect, test } from 'vitest'
import { apiOperations, openApiVersion } from './openapi.ts'
import type { JsonObject } from './plain-schema.ts'
import { sampleTask, taskText } from './sample-task.ts'

const only = (operation: object, document: object = {}, from?: string) => {
  const [one] = apiOperations({ paths: { '/a/{id}': { get: operation } }, ...document } as JsonObject, from)
  return one!
}
const id = { name: 'id', in: 'path', schema: { type: 'integer' } }
const found = (operation: object, document: object = {}) => {
  const { found } = only(operation, document)
  return 'problem' in found ? expect.fail(found.problem) : found.operation
}
const problem = (operation: object, document: object = {}) => {
  const { found } = only(operation, document)
  return 'problem' in found ? found.problem : expect.fail('it can be sold')
}

test.each([
  ['3.0.3', true],
  ['3.1.0', true],
  ['3.2.0', true],
  ['2.0', false],
  ['4.0.0', false],
  [3.1, false],
  [undefined, false],
])('openapi: %s is understood: %s', (openapi, isKnown) => {
  expect(openApiVersion({ openapi }) !== undefined).toBe(isKnown)
})

test('parameters of the path and of the operation, with a body, are the task', () => {
  const items = [{ name: 'tags', in: 'query', explode: false, schema: { type: 'array', items: { type: 'string' } } }]
  const [one] = apiOperations(
    {
      paths: {
        '/a/{id}': {
          parameters: [id, { name: 'lang', in: 'header', schema: { type: 'string' } }],
          put: {
            parameters: items,
            requestBody: { required: true, content: { 'application/json': { schema: { type: 'object' } } } },
          },
        },
      },
    },
    undefined,
  )
  expect(one).toMatchObject({ key: 'PUT /a/{id}', needsKey: false })
  expect(one!.found).toEqual({
    operation: {
      method: 'PUT',
      url: '/a/{id}',
      parameters: [
        { name: 'id', in: 'path' },
        { name: 'lang', in: 'header' },
        { name: 'tags', in: 'query', style: 'comma' },
      ],
      body: 'json',
      input_schema: {
        type: 'object',
        properties: {
          id: { type: 'integer' },
          lang: { type: 'string' },
          tags: { type: 'array', items: { type: 'string' } },
          body: { type: 'object' },
        },
        required: ['id', 'body'],
        additionalProperties: false,
      },
    },
  })
})

test('two parameters of one name get two names in the task', () => {
  const { parameters } = found({ parameters: [id, { name: 'id', in: 'query', schema: {} }] })
  expect(parameters).toEqual([
    { name: 'id', in: 'path' },
    { name: 'id', in: 'query', as: 'query_id' },
  ])
})

test.each([
  [{ parameters: [id, { name: 'Cookie', in: 'header', required: true }] }, /header that no task/],
  [{ parameters: [id, { name: 's', in: 'cookie', required: true }] }, /is in cookie/],
  [{ parameters: [{ ...id, style: 'matrix' }] }, /style/],
  [{ parameters: [id, { name: 'q', in: 'query', required: true, schema: { type: 'object' } }] }, /style/],
  [{ parameters: [{ $ref: 'https://evil.example/p.json' }] }, /outside of the document/],
  [{ parameters: [{ $ref: '#/components/none' }] }, /not in the document/],
  [{ security: [{ a: [], b: [] }] }, /several keys/],
])('an operation that cannot be sent says why: %#', (operation, message) => {
  const components = {
    securitySchemes: { a: { type: 'http', scheme: 'bearer' }, b: { type: 'apiKey', in: 'header', name: 'B' } },
  }
  expect(problem(operation, { components })).toMatch(message)
})

test('a parameter that need not be sent and cannot be is left out', () => {
  const left = [
    { name: 's', in: 'cookie' },
    { name: 'Authorization', in: 'header', required: true },
  ]
  expect(found({ parameters: [id, ...left] }).parameters).toEqual([{ name: 'id', in: 'path' }])
})

test.each([
  [[{ k: [] }], { in: 'query', name: 'key' }],
  [[{ basic: [] }], { in: 'basic' }],
  [[{ b: [] }], undefined],
  [[{ cookie: [] }, { h: [] }], { in: 'header', name: 'X-Key' }],
])('the key goes where the document says: %j', (security, key) => {
  const securitySchemes = {
    k: { type: 'apiKey', in: 'query', name: 'key' },
    h: { type: 'apiKey', in: 'header', name: 'X-Key' },
    cookie: { type: 'apiKey', in: 'cookie', name: 'c' },
    basic: { type: 'http', scheme: 'Basic' },
    b: { type: 'http', scheme: 'bearer' },
  }
  const one = only({ parameters: [id], security }, { components: { securitySchemes } })
  expect(one.needsKey).toBe(true)
  expect('operation' in one.found && one.found.operation.key).toEqual(key)
})

test.each([
  [undefined, 'https://api.example/docs/openapi.json', 'https://api.example'],
  [[{ url: '/v2' }], 'https://api.example/docs/openapi.json', 'https://api.example/v2'],
  [[{ url: 'v2' }], 'https://api.example/docs/openapi.json', 'https://api.example/docs/v2'],
  [[{ url: 'https://{h}.example/', variables: { h: { default: 'eu' } } }], undefined, 'https://eu.example'],
  [[{ url: '/v2' }], undefined, undefined],
])('servers %j of %s lead to %s', (servers, from, server) => {
  expect(only({ parameters: [id] }, { ...(servers && { servers }) }, from).server).toBe(server)
})

test('T7 a document in a circle, or of nonsense, is read to its end', () => {
  const circle = {
    '/x': { $ref: '#/paths/~1x' },
    '/y': { get: { parameters: [{ $ref: '#/paths/~1y/get/parameters/0' }] } },
  }
  expect(apiOperations({ paths: circle }, undefined)).toMatchObject([
    { found: { problem: expect.stringMatching(/circle/) } },
  ])
  for (const paths of [
    null,
    [],
    'x',
    { '/a': null },
    { '/a': { get: 3 } },
    { '/a': { get: { parameters: 'x', requestBody: [] } } },
  ])
    expect(() => apiOperations({ paths } as JsonObject, undefined)).not.toThrow()
})

test('a sample is made of examples alone, and a task is described', () => {
  const { input_schema } = found({
    parameters: [
      { ...id, example: 4, description: 'The id' },
      { name: 'q', in: 'query', schema: { enum: ['a', 'b'] } },
    ],
  })
  expect(sampleTask(input_schema)).toBe('{"id":4}')
  expect(taskText(input_schema)).toBe('The task is a JSON object with "id" (integer): The id; "q" (a | b, optional).')
  expect(sampleTask(found({ parameters: [id] }).input_schema)).toBeUndefined()
})

test('T7 T39 a document that refers to a large part again and again is not read without end', () => {
  const parameters = Array.from({ length: 20_000 }, (_, at) => ({ name: `p${at % 8}`, in: 'query', schema: {} }))
  const paths = Object.fromEntries(
    Array.from({ length: 400 }, (_, at) => [`/p${at}`, { $ref: '#/components/pathItems/a' }]),
  )
  const components = { pathItems: { a: { get: {}, parameters } } }
  const found = apiOperations({ openapi: '3.1.0', paths, components }, 'https://a.example/').map((one) => one.found)
  expect(found[0]).toMatchObject({ operation: { method: 'GET' } })
  expect(found.at(-1)).toEqual({ problem: expect.stringContaining('refers to large parts too often') })
})
