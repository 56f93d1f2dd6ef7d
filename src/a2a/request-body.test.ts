import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { BODY_BYTES_MAX } from '../schema/limits.ts'
import { readBody } from './request-body.ts'

function request(body: string | Buffer, headers: Record<string, string> = { 'content-type': 'application/json' }) {
  return Object.assign(Readable.from([Buffer.from(body)]), { headers }) as unknown as IncomingMessage
}
const kind = async (body: string | Buffer, headers?: Record<string, string>) =>
  (await readBody(request(body, headers))).kind

test.each(['application/json', 'application/json; charset=utf-8', 'application/a2a+json', 'Application/JSON'])(
  '%s is JSON',
  async (type) => {
    expect(await readBody(request('{"a":1}', { 'content-type': type }))).toEqual({ kind: 'json', value: { a: 1 } })
  },
)
test.each(['text/plain', 'application/jsonx', 'text/json', 'application/x-www-form-urlencoded', ''])(
  'T11 %j is not, whatever it holds',
  async (type) => {
    expect(await kind('{"a":1}', { 'content-type': type })).toBe('unsupported')
  },
)
test('a compressed body is not read: its size says nothing', async () => {
  expect(await kind('{}', { 'content-type': 'application/json', 'content-encoding': 'gzip' })).toBe('unsupported')
})
test('no body is no error: a method may need none', async () => {
  expect(await kind('', {})).toBe('empty')
})
test('T8 bytes that are no UTF-8 change nothing: they are refused', async () => {
  expect(await kind(Buffer.from([0x22, 0xff, 0x22]))).toBe('malformed')
})
test('T8 nesting is bounded, and brackets inside of strings are no nesting', async () => {
  expect(await kind('['.repeat(64) + ']'.repeat(64))).toBe('json')
  expect(await kind('['.repeat(65) + ']'.repeat(65))).toBe('malformed')
  expect(await kind(JSON.stringify(['['.repeat(1000), '\\"[['.repeat(100)]))).toBe('json')
})
test('T8 __proto__ is refused as a key and let through as a word', async () => {
  expect(await kind('{"a":{"__proto__" : 1}}')).toBe('malformed')
  expect(await kind(JSON.stringify({ text: 'what is "__proto__": in JavaScript?' }))).toBe('json')
})
test.each([
  ['{"params":{"message":{"parts":[{"text":{"a":1}}]}}}', 'malformed'],
  ['{"message":{"content":[{"text":5}]}}', 'malformed'],
  ['{"message":{"parts":[{"text":"a"},{"data":{"text":5}},null]}}', 'json'],
  ['{"message":"x","params":[]}', 'json'],
])('the text of a part must be text: %s', async (body, expected) => {
  expect(await kind(body)).toBe(expected)
})
test('T7 a body has a limit', async () => {
  await expect(readBody(request(Buffer.alloc(BODY_BYTES_MAX + 1, 32)))).rejects.toMatchObject({
    code: 'BODY_TOO_LARGE',
  })
})
