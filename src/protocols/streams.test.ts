import type { Stream } from '@libp2p/interface'
import { streamPair } from '@libp2p/utils'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { until } from '../../test/support/until.ts'
import { StreamPool } from './streams.ts'

const signal = new AbortController().signal
const peer = (peerId = 'seller') => ({ peerId, addrs: [] })
let opened: { ours: Stream; theirs: Stream; peerId: string }[]
let pool: StreamPool

function create(reuse?: boolean): StreamPool {
  return new StreamPool(
    { protocol: '/test', ...(reuse === undefined ? {} : { reuse }) },
    {
      open: async ({ peerId }) => {
        const [ours, theirs] = await streamPair({ protocol: '/test' })
        opened.push({ ours, theirs, peerId })
        return ours
      },
    },
  )
}
beforeEach(() => {
  opened = []
  pool = create()
})
afterEach(async () => {
  await pool.close()
  for (const { ours, theirs } of opened) {
    ours.abort(new Error('over'))
    theirs.abort(new Error('over'))
  }
})

test('D23: a stream that was given back is used again, by the same peer’s exchanges only', async () => {
  const first = await pool.take(peer(), signal)
  expect(first.reused).toBe(false)
  pool.give(peer(), first.stream)
  const other = await pool.take(peer('other'), signal)
  expect(other.reused).toBe(false)
  const second = await pool.take(peer(), signal)
  expect(second).toEqual({ stream: first.stream, reused: true })
  expect(opened.map(({ peerId }) => peerId)).toEqual(['seller', 'other'])
})

test('a stream that a better way to its peer has superseded is neither kept nor used again', async () => {
  const old = new Set<Stream>()
  const open = async () => {
    const [ours, theirs] = await streamPair({ protocol: '/test' })
    opened.push({ ours, theirs, peerId: 'seller' })
    return ours
  }
  pool = new StreamPool({ protocol: '/test' }, { open, superseded: (stream) => old.has(stream) })
  const first = await pool.take(peer(), signal)
  const second = await pool.take(peer(), signal)
  pool.give(peer(), first.stream)
  for (const { ours } of opened) old.add(ours)
  pool.give(peer(), second.stream)
  expect((await pool.take(peer(), signal)).reused).toBe(false)
})

test('D23: a stream carries one exchange at a time', async () => {
  const first = await pool.take(peer(), signal)
  pool.give(peer(), first.stream)
  const taken = await Promise.all([pool.take(peer(), signal), pool.take(peer(), signal), pool.take(peer(), signal)])
  expect(new Set(taken.map(({ stream }) => stream)).size).toBe(3)
})

test.each<[string, (stream: { ours: Stream; theirs: Stream }) => unknown]>([
  ['ended', ({ theirs }) => theirs.close()],
  ['reset', ({ theirs }) => theirs.abort(new Error('gone'))],
  ['lost', ({ ours }) => ours.abort(new Error('the connection is gone'))],
])('D23: an idle stream that was %s meanwhile is found out and replaced', async (_what, end) => {
  const { stream } = await pool.take(peer(), signal)
  pool.give(peer(), stream)
  await end(opened[0]!)
  await until(() => stream.ended)
  expect(await pool.take(peer(), signal)).toMatchObject({ reused: false })
  expect(opened).toHaveLength(2)
})

test('a stream that has ended by the time it is given back is closed', async () => {
  const { stream } = await pool.take(peer(), signal)
  await opened[0]!.theirs.close()
  await until(() => stream.ended)
  pool.give(peer(), stream)
  await until(() => opened[0]!.ours.status === 'closed')
  expect((await pool.take(peer(), signal)).reused).toBe(false)
})

test('without reuse every stream is closed when it is given back', async () => {
  const single = create(false)
  const { stream } = await single.take(peer(), signal)
  single.give(peer(), stream)
  await until(() => opened[0]!.ours.writeStatus === 'closed')
  expect((await single.take(peer(), signal)).reused).toBe(false)
})

test('T19: no more than 64 idle streams are kept for a peer', async () => {
  const taken = await Promise.all(Array.from({ length: 70 }, () => pool.take(peer(), signal)))
  for (const { stream } of taken) pool.give(peer(), stream)
  await until(() => opened.filter(({ ours }) => ours.writeStatus === 'closed').length === 6)
})

test('an open that fails is the caller’s to know', async () => {
  const failing = new StreamPool({ protocol: '/test' }, { open: () => Promise.reject(new Error('unreachable')) })
  await expect(failing.take(peer(), signal)).rejects.toThrow('unreachable')
})

test('closing ends all idle streams', async () => {
  const taken = await Promise.all(Array.from({ length: 5 }, () => pool.take(peer(), signal)))
  for (const { stream } of taken) pool.give(peer(), stream)
  await pool.close()
  expect(opened.map(({ ours }) => ours.writeStatus)).toEqual(Array(5).fill('closed'))
})

describe('time', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())

  test('T19: a stream that is not used for a minute is closed', async () => {
    const { stream } = await pool.take(peer(), signal)
    pool.give(peer(), stream)
    await vi.advanceTimersByTimeAsync(59_999)
    const again = await pool.take(peer(), signal)
    expect(again.reused).toBe(true)
    pool.give(peer(), stream)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(opened[0]!.ours.writeStatus).toBe('closed')
    expect((await pool.take(peer(), signal)).reused).toBe(false)
  })
})
