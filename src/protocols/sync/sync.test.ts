import { streamPair } from '@libp2p/utils'
import { expect, test } from 'vitest'
import type { Frame } from '../frame.ts'
import { FramedStream } from '../framed-stream.ts'
import { encodeBatch } from './batch.ts'
import { openSync, type SyncSide, serveSync } from './sync.ts'

const never = new AbortController().signal
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
const envelope = (length: number) => new Uint8Array(length).fill(7)

type Script = { says?: string[]; batches?: Uint8Array[][]; takes?: boolean; takeMax?: number }

/** A side that says what it is told to, in turn, what ends with a stop as the last, and takes so many batches. */
function side({ says = [], batches = [], takes = true, takeMax = 1000 }: Script = {}) {
  const heard: string[] = []
  const taken: Uint8Array[][] = []
  const script: SyncSide = {
    takes,
    open: () => Buffer.from(says.shift() ?? ''),
    hear(message) {
      heard.push(text(message))
      const say = says.shift()
      if (say === 'enough') return say
      return { ...(say === undefined ? {} : { say: Buffer.from(say) }), last: say?.endsWith('.') ?? true }
    },
    batches: () => batches,
    async take(envelopes) {
      taken.push(envelopes)
      return taken.length < takeMax
    },
    settle: async () => {},
  }
  return { ...script, heard, taken }
}

async function streams(): Promise<[FramedStream, FramedStream]> {
  const [client, server] = await streamPair()
  return [new FramedStream(client), new FramedStream(server)]
}

async function session(client: ReturnType<typeof side>, server: ReturnType<typeof side>): Promise<void> {
  const [one, other] = await streams()
  await Promise.all([openSync(one, client, { signal: never }), serveSync(other, server, { signal: never })])
}

test('both sides talk in turns, then each hands over to the other', async () => {
  const client = side({ says: ['open', 'b'], batches: [[envelope(1)]] })
  const server = side({ says: ['a', 'c.'], batches: [[envelope(2), envelope(3)], [envelope(4)]] })
  await session(client, server)
  expect([server.heard, client.heard]).toEqual([
    ['open', 'b'],
    ['a', 'c.'],
  ])
  expect(client.taken.map((batch) => batch.map(({ length }) => length))).toEqual([[2, 3], [4]])
  expect(server.taken.map((batch) => batch.map(({ length }) => length))).toEqual([[1]])
})

test.each(['client', 'server'])('what was found until the %s has had enough is handed over', async (who) => {
  const client = side({ says: who === 'client' ? ['open', 'enough'] : ['open', 'b', 'd'], batches: [[envelope(1)]] })
  const server = side({ says: who === 'server' ? ['a', 'enough'] : ['a', 'c', 'e'], batches: [[envelope(2)]] })
  await session(client, server)
  expect([client.taken.length, server.taken.length]).toEqual([1, 1])
})

test('T7 who takes no more is sent no more, but for what is under way', async () => {
  const asked: number[] = []
  function* endless() {
    for (let n = 0; ; n++) {
      asked.push(n)
      yield [envelope(100)]
    }
  }
  const client = side({ says: ['open'], takeMax: 3 })
  await session(client, { ...side({ says: ['a.'] }), batches: endless })
  expect(client.taken).toHaveLength(3)
  expect(asked.length).toBeLessThanOrEqual(5)
  const server = side({ says: ['a.'], takeMax: 1 })
  await session({ ...side({ says: ['open'] }), batches: endless }, server)
  expect(server.taken).toHaveLength(1)
})

test('a server that wants nothing is sent nothing', async () => {
  const server = side({ says: ['a.'], takes: false, batches: [[envelope(1)]] })
  const client = side({ says: ['open'], batches: [[envelope(2)]] })
  await session(client, server)
  expect([client.taken.length, server.taken.length]).toEqual([1, 0])
})

/** Opens a session with a server that answers with these frames, whatever it is told. */
async function openTo(frames: Frame[], stepTimeoutMs = 1000): Promise<void> {
  const [client, server] = await streams()
  const script = async () => {
    await server.read(never)
    for (const frame of frames) await server.write(frame, never)
    await server.close()
  }
  const opened = openSync(client, side({ says: ['open', 'b', 'c', 'd'] }), { signal: never, stepTimeoutMs })
  const [result] = await Promise.allSettled([opened, script()])
  if (result.status === 'rejected') throw result.reason
}

const frame = (type: string, data: Uint8Array = new Uint8Array()): Frame => ({ type, data })
const listings = (...envelopes: Uint8Array[]) => frame('sync.listings', encodeBatch(envelopes))
const enough = frame('sync.enough')

test('a server that ends early is not mistaken for one that has no more', async () => {
  await expect(openTo([enough, listings(envelope(10))])).rejects.toMatchObject({ code: 'SYNC_CUT' })
})

test.each<[string, Frame[]]>([
  ['a frame of another type', [frame('x402.request')]],
  ['listings before the talk is over', [listings(envelope(1))]],
  ['a message over 64 KiB', [frame('sync.ranges', envelope(64 * 1024 + 1))]],
  ['an empty batch', [enough, frame('sync.listings')]],
  ['a broken batch', [enough, frame('sync.listings', Uint8Array.of(0, 0, 0, 9, 1))]],
  ['a batch over 128 KiB', [enough, listings(...Array.from({ length: 9 }, () => envelope(16 * 1024)))]],
  ['an envelope over its limit', [enough, listings(envelope(16 * 1024 + 1))]],
  ['more envelopes than a batch may have', [enough, listings(...Array.from({ length: 129 }, () => envelope(1)))]],
])('T7 T8 a client refuses %s', async (_, frames) => {
  await expect(openTo([...frames, frame('sync.end')])).rejects.toMatchObject({ code: 'SYNC_INVALID' })
})

test('T7 a peer that talks without end, or hands over what was refused, is left', async () => {
  const [client, server] = await streams()
  const talker = { ...side(), hear: () => ({ say: envelope(1), last: false }) }
  const talk = async () => {
    for (;;) {
      await server.read(never)
      await server.write(frame('sync.ranges', envelope(1)), never)
    }
  }
  void talk().catch(() => {})
  await expect(openSync(client, talker, { signal: never })).rejects.toMatchObject({ code: 'SYNC_INVALID' })
  server.abort(new Error('done'))

  const [refusing, pushing] = await streams()
  const push = async () => {
    await pushing.write(enough, never)
    for (let n = 0; n < 9; n++) await pushing.write(listings(envelope(1)), never)
  }
  void push().catch(() => {})
  const taker = side({ says: ['open'], takeMax: 1 })
  await expect(openSync(refusing, taker, { signal: never })).rejects.toMatchObject({ code: 'SYNC_INVALID' })
  expect(taker.taken).toHaveLength(1)
})

test('T7 neither side waits for one that stalls', async () => {
  const [client, server] = await streams()
  const impatient = { signal: never, stepTimeoutMs: 50 }
  await expect(openSync(client, side({ says: ['open'] }), impatient)).rejects.toMatchObject({ name: 'TimeoutError' })
  expect((await server.read(never))?.type).toBe('sync.open')
  await expect(serveSync(server, side(), impatient)).rejects.toMatchObject({ name: 'TimeoutError' })
})

test('T8 a server refuses another first frame, and what the taker throws ends the session', async () => {
  const [client, server] = await streams()
  const serving = serveSync(server, side(), { signal: never })
  await client.write(frame('sync.end'), never)
  await expect(serving).rejects.toMatchObject({ code: 'SYNC_INVALID' })

  const fails = { ...side({ says: ['open'] }), take: () => Promise.reject(new Error('false listing')) }
  const [one, other] = await streams()
  void serveSync(other, side({ says: ['a.'], batches: [[envelope(5)]] }), { signal: never }).catch(() => {})
  await expect(openSync(one, fails, { signal: never })).rejects.toThrow('false listing')
  one.abort(new Error('done'))
})
