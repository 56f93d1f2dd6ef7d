import type { ConnectionEncrypter, MessageStream, SecuredConnection } from '@libp2p/interface'
import { Uint8ArrayList } from 'uint8arraylist'
import { expect, test } from 'vitest'
import { batchingWrites } from './batched-writes.ts'

/** A connection as far as it is sent to. */
function connection() {
  const sent: Uint8Array[] = []
  const stream = {
    status: 'open',
    writableNeedsDrain: false,
    aborted: undefined as Error | undefined,
    send(data: Uint8Array | Uint8ArrayList): boolean {
      if (stream.status !== 'open') throw new Error(`cannot write: ${stream.status}`)
      sent.push(data.subarray())
      return true
    },
    async close() {
      stream.status = 'closing'
    },
    abort(error: Error) {
      stream.status = 'aborted'
      stream.aborted = error
    },
  }
  return { stream, sent, texts: () => sent.map((bytes) => Buffer.from(bytes).toString()) }
}

/** Below and above an encrypter that hands on what it is given. */
async function secured() {
  const [below, above] = [connection(), connection()]
  const given: unknown[] = []
  above.stream.send = (data) => {
    given.push(data)
    return below.stream.send(data)
  }
  const plain: ConnectionEncrypter = {
    protocol: '/plain',
    secureOutbound: async () => ({ connection: above.stream as unknown as MessageStream }) as SecuredConnection,
    secureInbound: async () => ({ connection: above.stream as unknown as MessageStream }) as SecuredConnection,
  }
  const encrypter = batchingWrites(() => plain)(undefined)
  const { connection: sender } = await encrypter.secureOutbound(below.stream as unknown as MessageStream)
  const send = (text: string) => sender.send(Buffer.from(text))
  return { below, above, given, sender, send }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('what is sent in one turn leaves as one piece, in order', async () => {
  const { below, send, given } = await secured()
  expect(send('a')).toBe(true)
  await Promise.resolve()
  send('b')
  await new Promise((resolve) => queueMicrotask(() => resolve(send('c'))))
  expect(below.texts()).toEqual([])
  await turn()
  expect(below.texts()).toEqual(['abc'])
  expect(given).toHaveLength(1)
  send('d')
  await turn()
  expect(below.texts()).toEqual(['abc', 'd'])
})

test('a batch that is full leaves at once, and says whether more may come', async () => {
  const { below, sender } = await secured()
  expect(sender.send(new Uint8Array(40_000))).toBe(true)
  expect(below.sent).toHaveLength(0)
  below.stream.send = (data) => below.sent.push(data.subarray()) < 0
  expect(sender.send(new Uint8Array(40_000))).toBe(false)
})

test('a connection that is full is asked at once, after what waits', async () => {
  const { below, above, send } = await secured()
  send('a')
  above.stream.writableNeedsDrain = true
  send('b')
  expect(below.texts()).toEqual(['a', 'b'])
})

test('what was sent before a close leaves before it, whichever layer is closed', async () => {
  for (const layer of ['above', 'below'] as const) {
    const sides = await secured()
    sides.send('last')
    await sides[layer].stream.close()
    expect(sides.below.texts()).toEqual(['last'])
    await turn()
    expect(sides.below.texts()).toEqual(['last'])
  }
})

test('bytes for a connection that has broken meanwhile are dropped, and one that cannot send is aborted', async () => {
  const broken = await secured()
  broken.send('lost')
  broken.above.stream.abort(new Error('reset'))
  await turn()
  expect(broken.below.texts()).toEqual([])
  const failing = await secured()
  failing.send('never')
  failing.below.stream.send = () => {
    throw new Error('no route')
  }
  await turn()
  expect(failing.above.stream.aborted?.message).toBe('no route')
})

test('what is encrypted goes on in one piece, unless it is long', async () => {
  const below = connection()
  let raw: MessageStream | undefined
  const encrypter = batchingWrites(() => ({
    protocol: '/plain',
    secureOutbound: async (given: MessageStream) => {
      raw = given
      return { connection: connection().stream as unknown as MessageStream } as SecuredConnection
    },
    secureInbound: () => Promise.reject(new Error('not used')),
  }))(undefined)
  const pieces: number[] = []
  below.stream.send = (data) => pieces.push(data instanceof Uint8Array ? 1 : [...data].length) > 0
  await encrypter.secureOutbound(below.stream as unknown as MessageStream)
  raw?.send(new Uint8ArrayList(new Uint8Array(2), new Uint8Array(100)))
  raw?.send(new Uint8ArrayList(new Uint8Array(100_000), new Uint8Array(100_000)))
  expect(pieces).toEqual([1, 2])
})
