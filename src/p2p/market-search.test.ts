import { expect, test } from 'vitest'
import { marketSearchOf } from './market-search.ts'

const facts = { met: 0, bootstrap: 0, mdns: true, publicPeers: 3, uptimeMs: 120_000 }

test('D43: what is tried is said, and nothing is to be done where somebody was met', () => {
  expect(marketSearchOf({ ...facts, met: 2, bootstrap: 1 })).toEqual({
    met: 2,
    tried: [
      '1 bootstrap peer',
      'the peers of earlier runs',
      'the local network',
      'the public DHT (3 of its nodes connected)',
    ],
  })
})

test.each([
  [{ bootstrap: 1 }, /bootstrap address is right/],
  [{ publicPeers: undefined }, /--bootstrap.*--public-dht/],
  [{ uptimeMs: 1000 }, /wait a minute/],
  [{ publicPeers: 0 }, /cannot be reached/],
  [{}, /goes on looking.*--bootstrap/],
])('D43: with %o and nobody met it is said what to do', (change, fix) => {
  expect(marketSearchOf({ ...facts, ...change }).fix).toMatch(fix)
})
