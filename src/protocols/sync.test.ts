import { streamPair } from '@libp2p/utils'
import { expect, test } from 'vitest'
import type { Frame } from './frame.ts'
import { FramedStream } from './framed-stream.ts'
import { encodeBatch } from './listing-batch.ts'
import { pullListings, serveListings } from './sync.ts'

const print = (byte: number) => new Uint8Array(32).fill(byte)
const never = new AbortController().signal
const limits = { fingerprint: print(1), listingsMax: 1000, bytesMax: 64 * 1024 * 1024, signal: never }

async function streams(): Promise<[FramedStream, FramedStream]> {
  const [client, server] = await streamPair()
  return [new FramedStream(client), new FramedStream(server)]
}

/** Pulls from a server that answers with these frames, whatever it is asked. */
async function pullFrom(frames: Frame[], options: Partial<typeof limits> & { stepTimeoutMs?: number } = {}) {
  const [client, server] = await streams()
  const taken: Uint8Array[] = []
  const answer = async () => {
    await server.read(never)
    for (const frame of frames) await server.write(frame, never)
    await server.close()
  }
  const pulled = pullListings(client, { ...limits, ...options }, async (envelopes) => void taken.push(...envelopes))
  const [result] = await Promise.allSettled([pulled, answer()])
  if (result.status === 'rejected') throw result.reason
  return { received: result.value, taken }
}

const listings = (...envelopes: Uint8Array[]): Frame => ({ type: 'sync.listings', data: encodeBatch(envelopes) })
const end: Frame = { type: 'sync.end', data: new Uint8Array() }
const envelope = (length: number) => new Uint8Array(length).fill(7)

test('a client gets all that the server holds, in frames of at most 1 MiB', async () => {
  const [client, server] = await streams()
  const portions = [Array.from({ length: 200 }, () => envelope(16 * 1024)), [envelope(1)]]
  const serving = serveListings(server, { fingerprint: () => print(2), portions: () => portions, signal: never })
  const batches: Uint8Array[][] = []
  const received = await pullListings(client, limits, async (envelopes) => void batches.push(envelopes))
  await serving
  expect(received).toBe(201)
  expect(batches.flat().map(({ length }) => length)).toEqual(portions.flat().map(({ length }) => length))
  expect(batches.map((batch) => encodeBatch(batch).length > 1024 * 1024)).not.toContain(true)
  expect(batches.length).toBeLessThan(6)
})

test('a server that holds the same sends nothing (T19)', async () => {
  const [client, server] = await streams()
  const portions = () => {
    throw new Error('read although equal')
  }
  const serving = serveListings(server, { fingerprint: () => print(1), portions, signal: never })
  expect(await pullListings(client, limits, async () => {})).toBe(0)
  await serving
})

test('a listing server that ends early is not mistaken for one that has no more', async () => {
  await expect(pullFrom([listings(envelope(10))])).rejects.toMatchObject({ code: 'SYNC_CUT' })
})

test.each<[string, Frame]>([
  ['a frame of another type', { type: 'x402.request', data: new Uint8Array() }],
  ['an empty batch', { type: 'sync.listings', data: new Uint8Array() }],
  ['a broken batch', { type: 'sync.listings', data: new Uint8Array([0, 0, 0, 9, 1]) }],
  ['a frame over 1 MiB', listings(...Array.from({ length: 65 }, () => envelope(16 * 1024)))],
  ['an envelope over its limit', listings(envelope(16 * 1024 + 1))],
])('T7 T8 a client refuses %s', async (_, frame) => {
  await expect(pullFrom([frame, end])).rejects.toMatchObject({ code: 'SYNC_INVALID' })
})

test('T7 a client ends with a server that sends without end', async () => {
  const many = Array.from({ length: 30 }, () => listings(envelope(100), envelope(100)))
  await expect(pullFrom(many, { listingsMax: 50 })).rejects.toMatchObject({ code: 'SYNC_TOO_MUCH' })
  await expect(pullFrom(many, { bytesMax: 5000 })).rejects.toMatchObject({ code: 'SYNC_TOO_MUCH' })
})

test('T7 a client does not wait for a server that stalls, nor a server for a client', async () => {
  const [client, server] = await streams()
  await expect(pullListings(client, { ...limits, stepTimeoutMs: 50 }, async () => {})).rejects.toMatchObject({
    name: 'TimeoutError',
  })
  expect((await server.read(never))?.type).toBe('sync.pull')
  const idle = { fingerprint: () => print(2), portions: () => [], stepTimeoutMs: 50, signal: never }
  await expect(serveListings(server, idle)).rejects.toMatchObject({ name: 'TimeoutError' })
})

test.each<[string, Frame]>([
  ['another first frame', end],
  ['a pull without a fingerprint', { type: 'sync.pull', data: new Uint8Array() }],
])('T8 a server refuses %s', async (_, frame) => {
  const [client, server] = await streams()
  const serving = serveListings(server, { fingerprint: () => print(2), portions: () => [], signal: never })
  await client.write(frame, never)
  await expect(serving).rejects.toMatchObject({ code: 'SYNC_INVALID' })
})

test('what the taker of a batch throws ends the exchange', async () => {
  const [client, server] = await streams()
  const serving = serveListings(server, {
    fingerprint: () => print(2),
    portions: () => [[envelope(5)]],
    signal: never,
  })
  const pulled = pullListings(client, limits, () => Promise.reject(new Error('false listing')))
  await expect(pulled).rejects.toThrow('false listing')
  await serving
})
