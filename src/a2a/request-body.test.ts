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
  expect(await kind('{"a":{"\\u005f_pr\\u006Fto_\\u005F":{}}}')).toBe('malformed')
  expect(await kind(JSON.stringify({ text: 'what is "__proto__": in JavaScript?' }))).toBe('json')
})
test.each([
  ['{"params":{"message":{"parts":[{"text":{"a":1}}]}}}', 'params.message.parts.0.text: must be a string'],
  ['{"message":{"content":[{"text":5}]}}', 'message.content.0.text: must be a string'],
  ['{"message":{"parts":[null]}}', 'message.parts.0: must be an object'],
  ['{"message":{"parts":[{"raw":5}]}}', 'message.parts.0.raw: must be a string'],
  ['{"params":{"message":{"parts":[{"kind":"file"}]}}}', 'params.message.parts.0.file: must be an object'],
  ['{"params":{"message":{"parts":[{"file":{"bytes":null}}]}}}', 'params.message.parts.0.file.bytes: must be a string'],
  ['{"params":{"message":{"parts":[],"extensions":5}}}', 'params.message.extensions: must be a list'],
  [
    '{"params":{"configuration":{"acceptedOutputModes":{}}}}',
    'params.configuration.acceptedOutputModes: must be a list',
  ],
  ['{"params":{"id":5}}', 'params.id: must be a string'],
  ['{"method":"tasks/pushNotificationConfig/set"}', 'params: lacks pushNotificationConfig'],
])('what the SDK takes for granted is checked, and the answer says what is wrong: %s', async (body, reason) => {
  expect(await readBody(request(body))).toMatchObject({ kind: 'invalid', reason })
})
test.each([
  '{"message":{"parts":[{"text":"a"},{"data":{"text":5}},{"file":{"uri":"x"}}],"extensions":["e"]}}',
  '{"id":5,"params":{"id":"task","message":{"parts":null}}}',
  '{"message":"x","params":[]}',
  'null',
  '[5]',
])('all else is the business of the SDK: %s', async (body) => {
  expect(await kind(body)).toBe('json')
})
test('T7 a body has a limit', async () => {
  await expect(readBody(request(Buffer.alloc(BODY_BYTES_MAX + 1, 32)))).rejects.toMatchObject({
    code: 'BODY_TOO_LARGE',
  })
})
