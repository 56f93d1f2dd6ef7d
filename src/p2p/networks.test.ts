import { multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import { hostIn, networkOf, placeIn, siteOf } from './networks.ts'

test.each([
  ['203.0.113.7', '203.0.113.7', '203.0.0.0/16'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64', '2001:db8::/32'],
  ['2001:db8::1', '2001:db8:0:0::/64', '2001:db8::/32'],
  ['::1', '0:0:0:0::/64', '0:0::/32'],
  ['::ffff:203.0.113.7', '203.0.113.7', '203.0.0.0/16'],
  ['example.org', 'example.org', 'example.org'],
])('D52: %s belongs to the site %s and the network %s', (host, site, network) => {
  expect(siteOf(host)).toBe(site)
  expect(networkOf(host)).toBe(network)
})

test('of an address over a relay the host and the place are those of the relay', () => {
  const relay = '12D3KooWJYRG2SGgDJ3HyqM3xHJVvJCnBSb2mZJpbgnPrp2K7bNP'
  const address = multiaddr(`/ip4/203.0.113.7/tcp/4001/p2p/${relay}/p2p-circuit`)
  expect(hostIn(address)).toBe('203.0.113.7')
  expect(placeIn(address)).toBe('203.0.113.7 tcp 4001')
})
