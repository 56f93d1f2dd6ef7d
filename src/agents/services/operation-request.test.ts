/** What a task can and cannot make of a request (T39). */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Operation } from '../../schema/agent-service.ts'
import { AgentError } from '../runtime.ts'
import { requestOf } from './operation-request.ts'

const operation = Operation.parse({
  method: 'POST',
  url: 'https://api.example/v1/users/{user}/files/{file}.json',
  parameters: [
    { name: 'user', in: 'path' },
    { name: 'file', in: 'path' },
    { name: 'tag', in: 'query' },
    { name: 'ids', in: 'query', style: 'comma' },
    { name: 'filter', in: 'query', style: 'deep' },
    { name: 'sort', in: 'query', style: 'json' },
    { name: 'X-Trace', in: 'header', as: 'trace' },
  ],
  body: 'json',
})
const path = { user: 'ann', file: 'a b' }
const request = (args: Record<string, unknown>, key?: string) => requestOf(operation, { ...path, ...args }, key)

test('arguments become path, query, headers and body', () => {
  const args = { tag: ['x', 'y&z'], ids: [1, 2], filter: { a: 'b' }, sort: { by: 'age' }, trace: 't 1', body: { n: 1 } }
  expect(request(args, 'the-key')).toEqual({
    url: 'https://api.example/v1/users/ann/files/a%20b.json?tag=x&tag=y%26z&ids=1%2C2&filter%5Ba%5D=b&sort=%7B%22by%22%3A%22age%22%7D',
    method: 'POST',
    headers: {
      ...{ accept: expect.any(String), 'x-trace': 't 1', 'content-type': 'application/json' },
      authorization: 'Bearer the-key',
    },
    body: '{"n":1}',
  })
})

test.each([
  [{ in: 'header', name: 'X-Key' }, { headers: { 'x-key': 'k' } }],
  [{ in: 'query', name: 'key' }, { url: expect.stringMatching(/\?key=k$/) }],
  [{ in: 'basic' }, { headers: { authorization: 'Basic aw==' } }],
] as const)('the key goes where the operation wants it: %j', (key, expected) => {
  const keyed = Operation.parse({ method: 'GET', url: 'https://api.example/a', key })
  const { url, headers } = requestOf(keyed, {}, 'k')
  expect({ url, headers }).toMatchObject(expected)
})

test('T12 no argument replaces the key', () => {
  const keyed = Operation.parse({
    ...{ method: 'GET', url: 'https://api.example/a', key: { in: 'query', name: 'key' } },
    parameters: [
      { name: 'key', in: 'query', as: 'mine' },
      { name: 'X-Key', in: 'header' },
    ],
  })
  expect(requestOf(keyed, { mine: 'attacker' }, 'k').url).toBe('https://api.example/a?key=k')
  const inHeader = { ...keyed, key: { in: 'header' as const, name: 'x-key' } }
  expect(requestOf(inHeader, { 'X-Key': 'attacker' }, 'k').headers['x-key']).toBe('k')
})

test.each([
  '..',
  '.',
  '...',
  '',
  '/',
  'a/b',
  '../admin',
  '..%2fadmin',
  '%2e%2e',
  '%252e',
  'a\\b',
  '..\\admin',
  'a\r\nb',
  'a\u0000',
  'a\tb',
])('T12 %j is no part of an address', (file) => {
  expect(() => request({ file })).toThrow(AgentError)
})

test.each(['@evil.example', 'x?admin=1', 'x#y', 'evil.example:80', '//evil.example'.slice(2), ';a=b', 'ü', '..;x'])(
  'T12 %j stays one segment of the path',
  (file) => {
    const { pathname, host, search, hash } = new URL(request({ file }).url)
    expect({ host, search, hash, segments: pathname.split('/').length }).toEqual({
      ...{ host: 'api.example', search: '', hash: '', segments: 6 },
    })
  },
)

test('T12 any texts lead to the same host, with as many segments and no other query', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), fc.string(), (user, file, tag) => {
      try {
        const url = new URL(request({ user, file, tag }).url)
        expect([url.origin, url.pathname.split('/').length, url.hash]).toEqual(['https://api.example', 6, ''])
        expect([...url.searchParams.keys()]).toEqual(['tag'])
        expect(url.pathname.startsWith('/v1/users/')).toBe(true)
      } catch (error) {
        if (!(error instanceof AgentError)) throw error
      }
    }),
    { numRuns: 2_000 },
  )
})

test.each([
  [{ trace: 'a\r\nhost: evil.example' }, /header/],
  [{ trace: 'ü' }, /header/],
  [{ trace: 'x'.repeat(5_000) }, /header/],
  [{ filter: { 'a][b': 1 } }, /field/],
  [{ tag: { admin: 'true' } }, /not a text/],
  [{ tag: [{ a: 1 }] }, /not a text/],
  [{ host: 'evil.example' }, /is not an argument/],
  [{ toString: 1 }, /is not an argument/],
  [{ user: undefined }, /missing/],
  [{ tag: 'x'.repeat(9_000) }, /more than 8192/],
])('T12 the arguments %j are refused', (args, message) => {
  expect(() => request(args as Record<string, unknown>)).toThrow(message)
})

test.each([
  'Host',
  'Cookie',
  'Authorization',
  'Content-Length',
  'Transfer-Encoding',
  'X-Forwarded-For',
  'a b',
  'a:b',
  'a\r\nb',
])('T12 the header %j is no parameter', (name) => {
  const given = { method: 'GET', url: 'https://api.example/', parameters: [{ name, in: 'header' }] }
  expect(Operation.safeParse(given).success).toBe(false)
})

test.each([
  'https://{host}/a',
  'https://api.example:{port}/',
  'https://api.example/a?x={x}',
  'https://api.example/a#b',
  'https://me:pw@api.example/{x}',
  'ftp://api.example/',
  'https://api.example/{',
  'https://api.example/{x}/{y}',
])('T12 the address %s is refused', (url) => {
  const given = { method: 'GET', url, parameters: [{ name: 'x', in: 'path' }] }
  expect(Operation.safeParse(given).success).toBe(false)
})
