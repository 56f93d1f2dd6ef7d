/** T21: services that repeat the key of the seller in what they answer. */
import { expect, test } from 'vitest'
import { withoutKeys } from './hidden-keys.ts'
import type { AgentRuntime } from './runtime.ts'

const KEY = 'sk+secret/"1"'
const told: string[] = []
const record = (_: object, message: string) => told.push(message)
const logger = { debug: record, info: record, warn: record, error: record, child: () => logger }

/** An agent that shows pieces, and gives them as its result. */
function agentOf(pieces: readonly string[]): AgentRuntime {
  return {
    model: 'x',
    async run({ onOutput }) {
      for (const piece of pieces) await onOutput?.(piece)
      return pieces.join('')
    },
  }
}

async function given(pieces: readonly string[], keys = [KEY]) {
  const shown: string[] = []
  const { signal } = new AbortController()
  const onOutput = (text: string) => void shown.push(text)
  const call = { input: '', callerId: 'c', history: [], signal, onOutput }
  const result = await withoutKeys(agentOf(pieces), keys, logger).run(call)
  return { result, shown: shown.join('') }
}

test.each([
  ['as it is', KEY],
  ['in an address', encodeURIComponent(KEY)],
  ['in a query', new URLSearchParams({ k: KEY }).toString().slice(2)],
  ['in JSON', JSON.stringify(KEY).slice(1, -1)],
  ['in a basic authorization', Buffer.from(KEY).toString('base64')],
])('a key %s is in no result, and in no piece of one', async (_, form) => {
  const text = `{"next": "/a?key=${form}&page=2"}`
  const clean = '{"next": "/a?key=[secret]&page=2"}'
  for (const pieces of [[text], [...text], [text.slice(0, 22), text.slice(22)], [text, text]]) {
    const expected = clean.repeat(pieces.join('').length / text.length)
    expect(await given(pieces)).toEqual({ result: expected, shown: expected })
  }
})

test('the operator is told, once for each agent', async () => {
  told.length = 0
  await given([KEY, KEY])
  expect(told).toEqual([expect.stringContaining('the key is removed')])
})

test('what only begins like a key is given whole', async () => {
  const text = `${KEY.slice(0, -1)}! and ${KEY.slice(0, -1)}`
  for (const pieces of [[text], [...text]]) expect(await given(pieces)).toEqual({ result: text, shown: text })
})

test('a short key is left: it would be found in ordinary words', async () => {
  expect(await given(['republic'], ['public'])).toEqual({ result: 'republic', shown: 'republic' })
})
