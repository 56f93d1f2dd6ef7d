import type { Stream } from '@libp2p/interface'
import { byteStream, streamPair } from '@libp2p/utils'
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { DATA_BYTES_MAX, encodeFrame, encodeTextFrame, FRAME_BYTES_MAX } from './frame.ts'
import { FramedStream, type FramedStreamOptions } from './framed-stream.ts'

const open = new AbortController().signal
const streams: Stream[] = []
afterEach(() => {
  for (const stream of streams.splice(0)) stream.abort(new Error('the test is over'))
})

/** Two ends of a stream in memory: ours reads frames, the peer's is raw. */
async function pair(options: FramedStreamOptions = {}) {
  let held = 0
  let most = 0
  const account = (change: number) => {
    held += change
    most = Math.max(most, held)
    return options.account?.(change) ?? true
  }
  const [peer, ours] = await streamPair({ protocol: '/test' })
  streams.push(peer, ours)
  const framed = new FramedStream(ours, { ...options, account })
  return { peer, ours, framed, held: () => held, most: () => most }
}
const frame = (type: string, text = '') => encodeTextFrame(type, text)
const typeOf = async (framed: FramedStream) => (await framed.read(open))?.type

test('frames arrive one by one in their order, and the end after the last', async () => {
  const { peer, framed, held } = await pair()
  peer.send(frame('a', 'first'))
  peer.send(Buffer.concat([frame('b'), frame('c')]))
  await peer.close()
  const first = await framed.read(open)
  expect([first?.type, Buffer.from(first!.data).toString()]).toEqual(['a', 'first'])
  expect([await typeOf(framed), await typeOf(framed)]).toEqual(['b', 'c'])
  expect(await framed.read(open)).toBeUndefined()
  expect(await framed.read(open)).toBeUndefined()
  expect([framed.ended, held()]).toEqual([true, 0])
})

test('D23: what a peer sends before it ends its side is all read, however much it is and however late', async () => {
  for (const count of [2, 5, 100]) {
    const { peer, framed, held } = await pair()
    for (let index = 0; index < count; index++) peer.send(frame(`frame ${index}`, 'x'))
    await peer.close()
    await until(() => held() > 0)
    const types = []
    for (let type = await typeOf(framed); type !== undefined; type = await typeOf(framed)) types.push(type)
    expect(types).toEqual(Array.from({ length: count }, (_, index) => `frame ${index}`))
    expect(held()).toBe(0)
  }
})

test('D23: a stream whose end came together with its frames, before a reader was there, ends after them', async () => {
  const [peer, ours] = await streamPair({ protocol: '/test' })
  streams.push(peer, ours)
  // As protocol negotiation does: it has read the frames and seen the end, and hands the bytes back.
  const negotiation = byteStream(ours)
  await negotiation.read({ bytes: 0 })
  peer.send(Buffer.concat([frame('a'), frame('b')]))
  await peer.close()
  await until(() => ours.readableEnded)
  negotiation.unwrap()
  const framed = new FramedStream(ours)
  const ended = AbortSignal.timeout(5000)
  expect([(await framed.read(ended))?.type, (await framed.read(ended))?.type]).toEqual(['a', 'b'])
  expect(await framed.read(ended)).toBeUndefined()
  expect(framed.ended).toBe(true)
})

test('D23: a stream that has ended before a reader is there, without a byte, is at its end', async () => {
  const [peer, ours] = await streamPair({ protocol: '/test' })
  streams.push(peer, ours)
  await peer.close()
  await until(() => ours.readableEnded)
  const framed = new FramedStream(ours)
  expect(await framed.read(AbortSignal.timeout(5000))).toBeUndefined()
})

test('a frame of the largest size passes both ways', async () => {
  const { peer, framed } = await pair()
  const data = Buffer.alloc(DATA_BYTES_MAX, 7)
  const back = new FramedStream(peer)
  const [, received] = await Promise.all([framed.write({ type: 'large', data }, open), back.read(open)])
  expect(Buffer.compare(received!.data, data)).toBe(0)
  const [, answered] = await Promise.all([back.write({ type: 'large', data }, open), framed.read(open)])
  expect(Buffer.compare(answered!.data, data)).toBe(0)
})

test.each([
  ['a type_len of 0', [0, 0]],
  ['data_len over 8 MiB', [0, 1, 97, 0xff, 0xff, 0xff, 0xff]],
])('D24: after %s nothing more is read, and an answer can still be written', async (_what, bytes) => {
  const { peer, framed } = await pair()
  const answers = new FramedStream(peer)
  peer.send(frame('good'))
  peer.send(Uint8Array.from(bytes))
  expect(await typeOf(framed)).toBe('good')
  await expect(framed.read(open)).rejects.toMatchObject({ name: 'FrameError' })
  await expect(framed.read(open)).rejects.toMatchObject({ name: 'FrameError' })
  await framed.writeText('sorry', 'no', open)
  expect(await typeOf(answers)).toBe('sorry')
})

test('D24: a frame that does not arrive in time is an error', async () => {
  const { peer, framed, held } = await pair({ frameTimeoutMs: 5 })
  peer.send(frame('slow', 'data').subarray(0, 8))
  await expect(framed.read(AbortSignal.timeout(10_000))).rejects.toMatchObject({ code: 'FRAME_SLOW' })
  expect(held()).toBe(0)
})

test('D24: the time is each frame’s own: many that arrive quickly may come for long', async () => {
  const { peer, framed } = await pair({ frameTimeoutMs: 60 })
  const bytes = frame('next', 'x'.repeat(20))
  let sent = 0
  const end = performance.now() + 200
  // Each message ends inside a frame, so that there is never a moment at which nothing is half there.
  peer.send(bytes.subarray(0, 10))
  while (performance.now() < end) {
    peer.send(Buffer.concat([bytes.subarray(10), bytes.subarray(0, 10)]))
    sent++
    await new Promise((resolve) => setImmediate(resolve))
    expect(await typeOf(framed)).toBe('next')
  }
  expect(sent).toBeGreaterThan(3)
})

test('T23: a stream that ends inside a frame is cut, not ended', async () => {
  const { peer, framed } = await pair()
  peer.send(frame('cut', 'data').subarray(0, 9))
  await peer.close()
  await expect(framed.read(open)).rejects.toMatchObject({ code: 'FRAME_CUT' })
})

test('a stream that is reset fails its reader with the reason', async () => {
  const { peer, framed } = await pair()
  const read = framed.read(open)
  read.catch(() => {})
  peer.abort(new Error('changed my mind'))
  await expect(read).rejects.toMatchObject({ name: 'StreamResetError' })
  expect([framed.writable, framed.ended]).toEqual([false, true])
})

test('a read that is given up loses no frame', async () => {
  const { peer, framed } = await pair()
  const controller = new AbortController()
  const read = framed.read(controller.signal)
  controller.abort(new Error('enough'))
  await expect(read).rejects.toThrow('enough')
  await expect(framed.read(controller.signal)).rejects.toThrow('enough')
  peer.send(frame('later'))
  expect(await typeOf(framed)).toBe('later')
})

describe('T7: memory', () => {
  test('is booked for what waits and given back as it is read', async () => {
    const { peer, framed, held } = await pair()
    peer.send(frame('a', 'x'.repeat(1000)))
    peer.send(frame('b', 'x'.repeat(1000)).subarray(0, 500))
    await until(() => held() >= 1500)
    await framed.read(open)
    expect(held()).toBeLessThan(1000)
  })

  test('of a bomb of small frames is that of their bytes, and it ends the stream, not the node', async () => {
    const { peer, ours, held, most } = await pair()
    const bomb = Buffer.concat(Array.from({ length: 100_000 }, () => frame('x')))
    for (let sent = 0; sent < 100 && peer.status === 'open'; sent++) {
      peer.send(bomb)
      if (sent === 0) await until(() => held() > 0)
      else await new Promise((resolve) => setImmediate(resolve))
    }
    await until(() => ours.status !== 'open')
    expect(most()).toBeLessThanOrEqual(3 * FRAME_BYTES_MAX)
    expect(held()).toBeLessThanOrEqual(2 * bomb.length)
  })

  test('is given back in full when the stream ends with frames unread', async () => {
    const { peer, framed, held } = await pair()
    peer.send(
      Buffer.concat([frame('a', 'one'), frame('b', 'two'), frame('c', 'x'.repeat(100_000)).subarray(0, 50_000)]),
    )
    await peer.close()
    await until(() => framed.ended)
    expect(await typeOf(framed)).toBe('a')
    framed.discard()
    expect(held()).toBe(0)
    await expect(framed.read(open)).rejects.toThrow()
    expect(held()).toBe(0)
  })

  test('of what comes after the reader has gone is not held', async () => {
    const { peer, framed, held } = await pair()
    framed.discard()
    peer.send(frame('late', 'x'.repeat(10_000)))
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect(held()).toBe(0)
  })

  test('beyond what a peer may hold ends the stream', async () => {
    let left = 1000
    const account = (change: number) => {
      left -= change
      return left >= 0
    }
    const { peer, framed, ours } = await pair({ account })
    peer.send(frame('much', 'x'.repeat(5000)).subarray(0, 4000))
    await expect(framed.read(open)).rejects.toMatchObject({ code: 'FRAMES_UNREAD' })
    expect(ours.status).toBe('aborted')
    expect(left).toBe(1000)
  })
})

test('a peer that waits with more than a few frames unread is made to wait, and everything arrives', async () => {
  const { peer, framed } = await pair()
  for (let index = 0; index < 20; index++) peer.send(encodeFrame({ type: `${index}`, data: Buffer.alloc(10_000) }))
  await until(() => framed.read(open).then((first) => first?.type === '0'))
  for (let index = 1; index < 20; index++) expect(await typeOf(framed)).toBe(`${index}`)
})

test('a frame that cannot be sent is refused before a byte of it goes out', async () => {
  const { peer, framed } = await pair()
  const received = new FramedStream(peer)
  await expect(framed.write({ type: '', data: Buffer.alloc(0) }, open)).rejects.toMatchObject({ code: 'TYPE_LENGTH' })
  await expect(framed.write({ type: 'a', data: Buffer.alloc(DATA_BYTES_MAX + 1) }, open)).rejects.toMatchObject({
    code: 'DATA_LENGTH',
  })
  await framed.writeText('good', '', open)
  expect(await typeOf(received)).toBe('good')
})

describe('T7: a peer that does not take what is written to it', () => {
  /** A muxer whose window is closed: what is sent stays. */
  function close(stream: Stream): { open(): void } {
    let queued = 0
    stream.send = (data) => {
      queued += data.byteLength
      return false
    }
    Object.defineProperty(stream, 'writeBufferLength', { get: () => queued })
    return {
      open() {
        queued = 0
        stream.dispatchEvent(new Event('drain'))
      },
    }
  }

  test('is given up in time, and its bytes are given back', async () => {
    const { ours, framed, held } = await pair({ frameTimeoutMs: 20 })
    close(ours)
    const written = framed.writeText('never', 'x'.repeat(5000), open)
    written.catch(() => {})
    expect(held()).toBeGreaterThan(5000)
    await expect(written).rejects.toMatchObject({ code: 'FRAME_SLOW' })
    expect(held()).toBe(0)
    expect(ours.status).toBe('aborted')
  })

  test('is waited for while the frame before its own is under way', async () => {
    const { ours, framed, held } = await pair()
    const window = close(ours)
    const written = Promise.all([framed.writeText('a', 'one', open), framed.writeText('b', 'two', open)])
    ours.dispatchEvent(new Event('drain'))
    expect(held()).toBeGreaterThan(10)
    window.open()
    await written
    expect([held(), ours.status]).toEqual([0, 'open'])
  })

  test('holds no more of this node than a peer may', async () => {
    const { ours, framed, held } = await pair({ account: (change) => change < 1000 })
    close(ours)
    const caller = new AbortController()
    const written = framed.writeText('small', 'x', caller.signal)
    await until(() => held() > 0)
    caller.abort()
    await written.catch(() => {})
    expect(ours.status).toBe('open')
    await expect(framed.writeText('large', 'x'.repeat(1000), open)).rejects.toMatchObject({ code: 'FRAMES_UNREAD' })
    expect(ours.status).toBe('aborted')
  })
})
