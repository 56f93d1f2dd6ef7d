import type { Stream } from '@libp2p/interface'
import { lpStream, streamPair } from '@libp2p/utils'
import { expect, test } from 'vitest'
import { boundFirstMessage } from './relay-messages.ts'

/** Sends each chunk as a message of the stream. @returns what the reader gets: the length of the first message, or why not */
async function read(chunks: readonly Uint8Array[]): Promise<number | 'reset'> {
  const [sender, receiver] = (await streamPair()) as [Stream, Stream]
  let isReset = false
  boundFirstMessage(receiver, () => {
    isReset = true
  })
  const wire = lpStream(receiver)
  for (const chunk of chunks) sender.send(chunk)
  const message = await wire.read().catch((error: unknown) => {
    if (!isReset) throw error
  })
  return message === undefined ? 'reset' : message.byteLength
}

const bytes = (count: number) => new Uint8Array(count)

test('a message of up to 8 KiB is read, also if it comes byte by byte', async () => {
  expect(await read([Uint8Array.of(3, 1, 2, 3)])).toBe(3)
  expect(await read([Uint8Array.of(2), Uint8Array.of(1), Uint8Array.of(2)])).toBe(2)
  expect(await read([Uint8Array.of(0x80), Uint8Array.of(0x40), bytes(8192)])).toBe(8192)
})

test('a longer message resets the stream before it is read', async () => {
  expect(await read([Uint8Array.of(0x81, 0x40), bytes(8193)])).toBe('reset')
  expect(await read([Uint8Array.of(0x80, 0x80), Uint8Array.of(0x80), Uint8Array.of(0x01)])).toBe('reset')
  expect(await read([Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0xff)])).toBe('reset')
})

test('only the first message is bounded: a relayed connection may follow', async () => {
  const [sender, receiver] = (await streamPair()) as [Stream, Stream]
  boundFirstMessage(receiver)
  const wire = lpStream(receiver)
  sender.send(Uint8Array.of(1, 7))
  expect((await wire.read()).subarray()).toEqual(Uint8Array.of(7))
  void lpStream(sender).write(bytes(100_000))
  expect((await wire.read()).byteLength).toBe(100_000)
})
