import { expect, test } from 'vitest'
import { readJoinToken, writeJoinToken } from './join-token.ts'

const token = { peer: '12D3KooWSeller', addrs: ['/ip4/192.0.2.1/tcp/4001'], id: 'abc', secret: 'xyz' }

test('a join token is one word that says where the seller is', () => {
  const text = writeJoinToken(token)
  expect(text).toMatch(/^stoa-join_[\w-]+$/)
  expect(readJoinToken(` ${text}\n`)).toEqual(token)
})

test.each([
  ['nothing', ''],
  ['half of it', writeJoinToken(token).slice(0, 40)],
  ['another token', 'stoa_abc.def'],
  ['no addresses', writeJoinToken({ ...token, addrs: undefined as never })],
  ['too much', `stoa-join_${'A'.repeat(20_000)}`],
])('%s is refused with what to do, and is not repeated', (_what, text) => {
  const refuse = () => readJoinToken(text)
  expect(refuse).toThrow(expect.objectContaining({ code: 'JOIN_TOKEN_INVALID' }))
  expect(refuse).toThrow(/stoa worker invite/)
  if (text !== '') expect(refuse).not.toThrow(text)
})

test.each([20, 40, -1, -2, -3])('a token that was cut at %i is said not to be whole', (end) => {
  const text = writeJoinToken(token)
  expect(() => readJoinToken(text.slice(0, end))).toThrow(/is not whole: copy the whole line/)
  expect(() => readJoinToken('stoa-jo')).toThrow(/is not whole/)
  expect(() => readJoinToken(text.slice(4))).toThrow(/is no join token/)
})
