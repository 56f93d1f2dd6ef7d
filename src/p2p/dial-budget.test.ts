import type { PeerInfo } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import { DialBudget } from './dial-budget.ts'

const PEER = '12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5'
const at = (host: string, port: number, peer = PEER): Multiaddr => multiaddr(`/ip4/${host}/tcp/${port}/p2p/${peer}`)
const named = (...multiaddrs: Multiaddr[]): PeerInfo => ({ id: peerIdFromString(PEER), multiaddrs })

function setup() {
  let now = 0
  const budget = new DialBudget(() => now)
  const dial = (address: Multiaddr) => {
    try {
      return budget.take(address)
    } catch {
      return undefined
    }
  }
  const dials = (count: number, address: (nth: number) => Multiaddr) =>
    Array.from({ length: count }, (_, nth) => dial(address(nth))).filter(Boolean).length
  return {
    budget,
    dial,
    dials,
    pass: (ms: number) => {
      now += ms
    },
  }
}

test('D52: a place where nobody is is dialed eight times, and then now and then', () => {
  const { dials, pass } = setup()
  expect(dials(50, () => at('9.9.9.9', 4001))).toBe(8)
  pass(30_000)
  expect(dials(50, () => at('9.9.9.9', 4001))).toBe(2)
})

test('D52: all ports of a host, and all addresses of a /64, share a budget', () => {
  expect(setup().dials(500, (nth) => at('9.9.9.9', 1000 + nth))).toBe(64)
  const six = (nth: number) => multiaddr(`/ip6/2001:db8:1:2::${(nth + 1).toString(16)}/tcp/4001/p2p/${PEER}`)
  expect(setup().dials(500, six)).toBe(64)
})

test('a dial that reaches its peer costs nothing', () => {
  const { dial, dials } = setup()
  for (let count = 0; count < 100; count++) dial(at('9.9.9.9', 4001))?.()
  expect(dials(50, () => at('9.9.9.9', 4001))).toBe(8)
})

test('D52 T30: whoever names places where nobody is, is soon no longer listened to', () => {
  const { budget, dials } = setup()
  const source = { peerId: 'liar', host: '6.6.6.6' }
  const places = Array.from({ length: 100 }, (_, nth) => at(`9.9.${nth}.9`, 4001))
  for (const place of places) budget.admit(source, [named(place)])
  expect(dials(100, (nth) => places[nth]!)).toBe(32)
  expect(budget.admit(source, [named(at('8.8.8.8', 1))])).toEqual([])
  expect(budget.admit({ peerId: 'honest', host: '7.7.7.7' }, [named(at('8.8.8.8', 1))])).toHaveLength(1)
})

test('D52: many names at one address are one source', () => {
  const { budget, dials } = setup()
  const places = Array.from({ length: 300 }, (_, nth) => at(`9.${nth >> 8}.${nth & 255}.9`, 4001))
  for (const [nth, place] of places.entries()) budget.admit({ peerId: `liar ${nth}`, host: '6.6.6.6' }, [named(place)])
  expect(dials(300, (nth) => places[nth]!)).toBe(128)
})

test('D52: an answer names 64 peers at most, each at 32 addresses at most', () => {
  const many = Array.from({ length: 200 }, () =>
    named(...Array.from({ length: 100 }, (_, nth) => at('9.9.9.9', 1 + nth))),
  )
  const taken = setup().budget.admit({ peerId: 'a', host: '1.1.1.1' }, many)
  expect(taken).toHaveLength(64)
  expect(taken.every(({ multiaddrs }) => multiaddrs.length === 32)).toBe(true)
})

test('peers that the operator named, or that were reached at the place, are dialed as often as it takes', () => {
  const { budget, dials } = setup()
  budget.exempt([at('9.9.9.9', 4001)])
  budget.isReached = (peerId, place) => peerId === PEER && place === '8.8.8.8 tcp 4001'
  expect(dials(100, () => at('9.9.9.9', 4001))).toBe(100)
  expect(dials(100, () => at('8.8.8.8', 4001))).toBe(100)
  const another = '12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN'
  expect(dials(100, () => at('8.8.8.8', 4001, another))).toBe(8)
})
