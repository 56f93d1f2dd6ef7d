import { expect, test } from 'vitest'
import { declaredRequest } from './input-shape.ts'
import { readDemand } from './terms.ts'

const URL_ = 'https://seller.example/run'
const offer = { scheme: 'exact', network: 'eip155:84532', amount: '1', asset: '0x', payTo: '0x' }

function declared(input: object, schema?: object, task = 'a task') {
  const bazaar = { info: { input }, ...(schema && { schema: { properties: { input: { properties: schema } } } }) }
  const v2 = { x402Version: 2, accepts: [offer], extensions: { bazaar } }
  const header = Buffer.from(JSON.stringify(v2)).toString('base64')
  const answer = { status: 402, headers: { 'payment-required': header }, body: Buffer.alloc(0), isCut: false }
  return declaredRequest(readDemand(answer)!, URL_, task)
}
const http = (more: object) => ({ type: 'http', method: 'POST', bodyType: 'json', ...more })

test.each([
  ['a field named task', http({ body: { task: 'x', style: 'y' } }), { task: 'a task' }],
  ['a field for a prompt', http({ body: { model: 'x', prompt: 'y' } }), { prompt: 'a task' }],
  ['its only text', http({ body: { sentence: 'x', size: 3 } }), { sentence: 'a task' }],
])('a task fills %s of a JSON body', (_, input, body) => {
  expect(declared(input)).toEqual({
    ...{ method: 'POST', url: URL_, headers: { 'content-type': 'application/json' } },
    body: JSON.stringify(body),
  })
})

test('T41 a task is a parameter of the query, or the text itself', () => {
  const found = declared({ type: 'http', method: 'GET', queryParams: { q: 'x' } }, undefined, 'a & b')
  expect(found).toEqual({ method: 'GET', url: `${URL_}?q=a+%26+b`, headers: {} })
  const text = { method: 'PUT', url: URL_, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: 'a task' }
  expect(declared(http({ method: 'PUT', bodyType: 'text' }))).toEqual(text)
})

test.each([
  ['two required fields', http({}), { body: { properties: { a: { type: 'string' }, b: {} }, required: ['a', 'b'] } }],
  ['fields of which none is for a task', http({ body: { width: 1, height: 2 } }), undefined],
  ['a form with files', http({ bodyType: 'form-data', body: { file: 'x' } }), undefined],
])('a seller that declares %s is refused, with what it wants', (_, input, schema) => {
  expect(() => declared(input, schema)).toThrow(/takes its input .* Nothing was signed/)
})

test.each([
  ['nothing', {}],
  ['a tool of MCP', { type: 'mcp', toolName: 'x' }],
  ['an unknown method', http({ method: 'TRACE' })],
  ['no fields', http({})],
])('a seller that declares %s gets the usual request', (_, input) => {
  expect(declared(input)).toBeUndefined()
})
