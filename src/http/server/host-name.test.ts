import { expect, test } from 'vitest'
import { isLoopback, parseHost, urlHost } from './host-name.ts'

test.each([
  ['localhost', 'localhost', undefined],
  ['LOCALHOST:8424', 'localhost', '8424'],
  ['localhost.', 'localhost', undefined],
  ['127.0.0.1:80', '127.0.0.1', '80'],
  ['[::1]:8424', '::1', '8424'],
  ['[FE80::1]', 'fe80::1', undefined],
  ['node.example.org', 'node.example.org', undefined],
])('takes the host %s apart', (text, name, port) => {
  expect(parseHost(text)).toEqual({ name, port })
})

test.each([
  '',
  ' ',
  'a b',
  'user@localhost',
  'localhost:8424:1',
  'localhost/..',
  '::1',
  '[::1',
  '[zz]',
  '[127.0.0.1]',
  'localhost:123456',
  'localhost:',
  'lo\u0000calhost',
  'x'.repeat(300),
])('finds %j malformed', (text) => {
  expect(parseHost(text)).toBeUndefined()
})

test('knows what only this machine can be behind', () => {
  const loopback = ['localhost', '127.0.0.1', '127.255.0.9', '::1', '::ffff:127.0.0.1']
  const others = [
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    '127.1',
    '',
  ]
  expect(loopback.filter((name) => !isLoopback(name))).toEqual([])
  expect(others.filter(isLoopback)).toEqual([])
})

test('writes a host that a URL can hold', () => {
  expect(['127.0.0.1', '0.0.0.0', '::', '::1', 'node.lan'].map(urlHost)).toEqual([
    '127.0.0.1',
    '127.0.0.1',
    '[::1]',
    '[::1]',
    'node.lan',
  ])
})
