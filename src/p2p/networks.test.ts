import { multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import { hostIn, isPrivateHost, networkOf, placeIn, siteOf } from './networks.ts'

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

test.each([
  ['10.0.0.7', true],
  ['127.0.0.1', true],
  ['fd00::7', true],
  ['seed', true],
  ['seed.local', true],
  ['seed.internal', true],
  ['203.0.114.7', false],
  ['2a00::7', false],
  ['boot.example.org', false],
])('D52: that %s is of a local network is %s', (host, isPrivate) => {
  expect(isPrivateHost(host)).toBe(isPrivate)
})

test('the host and the place of an address over a relay are the relay’s', () => {
  const relay = '12D3KooWJYRG2SGgDJ3HyqM3xHJVvJCnBSb2mZJpbgnPrp2K7bNP'
  const address = multiaddr(`/ip4/203.0.113.7/tcp/4001/p2p/${relay}/p2p-circuit`)
  expect(hostIn(address)).toBe('203.0.113.7')
  expect(placeIn(address)).toBe('203.0.113.7 tcp 4001')
})
