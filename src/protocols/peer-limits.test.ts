import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { PeerLimits } from './peer-limits.ts'

const clock = new HandClock()
const limits = (options: object = {}) => new PeerLimits({ requestsPerSecond: 10, ...options }, { clock })

test('D36: each peer has so many streams, and gets each back once it is given back', () => {
  const peers = limits({ streamsMax: 2 })
  const [first] = [peers.openStream('a'), peers.openStream('a')]
  expect(peers.openStream('a')).toBeUndefined()
  expect(peers.openStream('b')).toBeTypeOf('function')
  first!()
  expect(peers.openStream('a')).toBeTypeOf('function')
  expect(peers.openStream('a')).toBeUndefined()
})

test('D36: a peer may burst to two seconds’ worth of requests, and then has its rate', () => {
  const peers = limits()
  const taken = (peer: string) => {
    let count = 0
    while (count < 1000 && peers.takeRequest(peer)) count++
    return count
  }
  expect(taken('a')).toBe(20)
  expect(taken('b')).toBe(20)
  clock.advance(500)
  expect(taken('a')).toBe(5)
  clock.advance(-60_000)
  expect(taken('a')).toBe(0)
  clock.advance(60_000 + 10_000)
  expect(taken('a')).toBe(20)
})

test('D36: bytes are held up to each peer’s share and to that of all', () => {
  const peers = limits({ bytesHeldMax: 100, bytesHeldTotalMax: 150 })
  expect(peers.holdBytes('a', 100)).toBe(true)
  expect(peers.holdBytes('a', 1)).toBe(false)
  expect(peers.holdBytes('b', 49)).toBe(true)
  expect(peers.holdBytes('b', 1)).toBe(false)
  // What was refused was booked, and is given back as it is let go.
  expect(peers.holdBytes('a', -101)).toBe(true)
  expect(peers.holdBytes('b', -50)).toBe(true)
  expect(peers.holdBytes('c', 100)).toBe(true)
})
