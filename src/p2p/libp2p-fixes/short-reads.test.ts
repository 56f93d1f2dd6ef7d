import type { MessageStream, StreamMessageEvent } from '@libp2p/interface'
import { noise } from '@libp2p/noise'
import { expect, test } from 'vitest'
import { endOfRead, securedPair } from '../../../test/support/secured-pair.ts'
import { readingOn } from './short-reads.ts'

test('messages arrive whole and in order, and the end of what was read makes no new error', async () => {
  const { from, to } = await securedPair(readingOn(noise()))
  expect(endOfRead(to)).toBe(endOfRead(to))
  const whole = `abc${'d'.repeat(100_000)}`
  const received = receive(to, whole.length)
  for (const text of ['a', 'b', 'c', whole.slice(3)]) from.send(Buffer.from(text))
  expect(await received).toBe(whole)
})

/** The text of the first `length` bytes. */
function receive(connection: MessageStream, length: number): Promise<string> {
  let text = ''
  return new Promise((resolve) => {
    connection.addEventListener('message', ({ data }: StreamMessageEvent) => {
      text += Buffer.from(data.subarray()).toString()
      if (text.length >= length) resolve(text)
    })
  })
}
