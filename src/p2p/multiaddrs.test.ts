import { multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import {
  addressesOf,
  announceable,
  bestFirst,
  inOwnOrder,
  mergeAddresses,
  namesIn,
  parseAnnounce,
  parseBootstrap,
  parseRelays,
} from './multiaddrs.ts'

const own = '12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN'
const other = '12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5'
const third = '12D3KooWHoSyTgntm77sXShoeX9uNkqKNMhHxKtskaHqnA54SrSG'

test('bootstrap addresses are grouped by peer, and this node’s own are left out', () => {
  const peers = parseBootstrap(
    [
      `/ip4/203.0.113.1/tcp/4001/p2p/${other}`,
      `/dns4/boot.example/tcp/4001/p2p/${other}`,
      `/ip4/203.0.113.9/tcp/4001/p2p/${own}`,
      `/dnsaddr/boot.example/p2p/${third}`,
    ],
    own,
  )
  expect(peers.map(({ peerId, addresses }) => [peerId, addresses.length])).toEqual([
    [other, 2],
    [third, 1],
  ])
})

test.each([
  ['an empty text', ''],
  ['no multiaddr', '203.0.113.1:4001'],
  ['a URL', 'https://boot.example'],
  ['no peer id', '/ip4/203.0.113.1/tcp/4001'],
  ['a broken peer id', '/ip4/203.0.113.1/tcp/4001/p2p/12D3KooW'],
  ['a transport that is not spoken here', `/ip4/203.0.113.1/tcp/4001/ws/p2p/${other}`],
  ['no port', `/ip4/203.0.113.1/p2p/${other}`],
  ['port 0', `/ip4/203.0.113.1/tcp/0/p2p/${other}`],
  ['a name for QUIC, which resolves none', `/dns4/boot.example/udp/4001/quic-v1/p2p/${other}`],
  ['the wildcard host', `/ip4/0.0.0.0/tcp/4001/p2p/${other}`],
  ['a port that is none', `/ip4/203.0.113.1/tcp/70000/p2p/${other}`],
  ['a relay without its peer id', `/ip4/203.0.113.1/tcp/4001/p2p-circuit/p2p/${third}`],
])('a bootstrap address with %s is refused, named, with the form expected', (_what, text) => {
  expect(() => parseBootstrap([text], own)).toThrow(expect.objectContaining({ code: 'BAD_MULTIADDR' }))
  expect(() => parseBootstrap([text], own)).toThrow(`bootstrap address "${text}" cannot be used`)
  expect(() => parseBootstrap([text], own)).toThrow('/p2p/<peer id>')
})

test('of a bootstrap address over a relay, the relay is met as well; a relay behind a relay is refused', () => {
  const relay = `/ip4/203.0.113.1/tcp/4001/p2p/${other}`
  const address = `${relay}/p2p-circuit/p2p/${third}`
  const peers = parseBootstrap([address, relay], own)
  expect(peers.map(({ peerId, addresses }) => [peerId, addresses.map(String)])).toEqual([
    [other, [relay]],
    [third, [address]],
  ])
  const twice = `${relay}/p2p-circuit/p2p/${other}/p2p-circuit/p2p/${third}`
  expect(() => parseBootstrap([twice], own)).toThrow(expect.objectContaining({ code: 'BAD_MULTIADDR' }))
  expect(() => parseRelays([address], own)).toThrow(expect.objectContaining({ code: 'BAD_MULTIADDR' }))
})

test('a name alone is not an address of a peer: the name server says whom it leads to', () => {
  const texts = ['/dnsaddr/boot.example', `/dnsaddr/boot.example/p2p/${other}`, '/dnsaddr/boot.example', '/dnsaddr/b']
  expect(parseBootstrap(texts, own).map(({ peerId }) => peerId)).toEqual([other])
  expect(namesIn(texts)).toEqual(['boot.example', 'b'])
  expect(() => parseBootstrap(['/dnsaddr/boot.example/tcp/4001'], own)).toThrow('/dnsaddr/<name>')
})

test('announced addresses lose this node’s own peer id', () => {
  const parsed = parseAnnounce(['/ip4/203.0.113.1/tcp/4001', `/ip4/203.0.113.1/udp/4001/quic-v1/p2p/${own}`], own)
  expect(parsed.map(String)).toEqual(['/ip4/203.0.113.1/tcp/4001', '/ip4/203.0.113.1/udp/4001/quic-v1'])
})

test.each([
  ['another peer’s id', `/ip4/203.0.113.1/tcp/4001/p2p/${other}`],
  ['no port', '/ip4/203.0.113.1'],
  ['the wildcard host', '/ip6/::/tcp/4001'],
  ['nothing of an address', 'here'],
])('an announced address with %s is refused', (_what, text) => {
  expect(() => parseAnnounce([text], own)).toThrow(
    expect.objectContaining({ code: 'BAD_MULTIADDR', message: expect.stringContaining(text) }),
  )
})

test('T8: a very long address is not repeated whole in the error', () => {
  expect(() => parseBootstrap(['x'.repeat(100_000)], own)).toThrow(
    expect.objectContaining({ message: expect.stringMatching(/^.{0,400}$/) }),
  )
})

test('T3: of a listing’s addresses only those that can be the seller’s are dialed', () => {
  const addresses = addressesOf(other, [
    '/ip4/203.0.113.1/tcp/4001',
    `/ip4/203.0.113.1/tcp/4001/p2p/${other}`,
    `/ip4/203.0.113.2/tcp/4001/p2p/${third}`,
    '/unix/%2Fvar%2Frun%2Fdocker.sock',
    '/ip4/203.0.113.3/tcp/0',
    '/ip4/0.0.0.0/tcp/4001',
    `/ip4/203.0.113.4/tcp/4001/p2p/${third}/p2p-circuit/p2p/${other}`,
    `/ip4/203.0.113.4/tcp/4001/p2p/${third}/p2p-circuit/p2p/${third}`,
    `/ip4/203.0.113.4/tcp/4001/p2p-circuit/p2p/${other}`,
    `/ip4/203.0.113.4/tcp/4001/p2p/${third}/p2p-circuit/p2p/${third}/p2p-circuit/p2p/${other}`,
    `/unix/%2Fvar%2Frun%2Fdocker.sock/p2p/${third}/p2p-circuit/p2p/${other}`,
    '/ip4/203.0.113.5/tcp/443/tls/ws',
    'garbage',
  ])
  expect(addresses.map(String)).toEqual([
    `/ip4/203.0.113.1/tcp/4001/p2p/${other}`,
    `/ip4/203.0.113.4/tcp/4001/p2p/${third}/p2p-circuit/p2p/${other}`,
  ])
})

test('public addresses come before private, private before loopback ones, TCP before QUIC', () => {
  const order = [
    '/dns4/seller.example/tcp/4001',
    '/ip4/9.9.9.9/udp/4001/quic-v1',
    '/ip4/192.168.1.7/tcp/4001',
    '/ip4/192.168.1.7/udp/4001/quic-v1',
    '/ip4/127.0.0.1/tcp/4001',
    '/ip6/::1/udp/4001/quic-v1',
    `/ip4/9.9.9.9/tcp/4001/p2p/${third}/p2p-circuit/p2p/${other}`,
    `/ip4/192.168.1.7/tcp/4001/p2p/${third}/p2p-circuit/p2p/${other}`,
  ]
  expect(bestFirst(order.toReversed().map((text) => multiaddr(text))).map(String)).toEqual(order)
})

test('link-local addresses are not announced', () => {
  const addresses = ['/ip6/fe80::1/udp/4001/quic-v1', '/ip4/169.254.1.1/tcp/4001', '/ip4/192.168.1.7/tcp/4001']
  expect(announceable(addresses.map((text) => multiaddr(text))).map(String)).toEqual(['/ip4/192.168.1.7/tcp/4001'])
})

test('the addresses of several processes are merged so that a short list names each of them', () => {
  const at = (host: string, port: number) => `/ip4/${host}/tcp/${port}/p2p/${other}`
  const quic = `/ip4/9.9.9.9/udp/1/quic-v1/p2p/${other}`
  const first = [at('9.9.9.9', 1), quic, at('127.0.0.1', 1)]
  const second = [at('8.8.8.8', 2), at('127.0.0.1', 1), 'unreadable']
  const merged = mergeAddresses([first, second])
  expect(merged).toEqual([at('9.9.9.9', 1), at('8.8.8.8', 2), quic, at('127.0.0.1', 1)])
  expect(mergeAddresses([])).toEqual([])
})

test('each dialer has an order of its own: public addresses first, and dialers spread over those of equal rank', () => {
  const near = multiaddr('/ip4/192.168.0.1/tcp/1')
  const open = ['5.5.5.1', '5.5.5.2', '5.5.5.3'].map((ip) => multiaddr(`/ip4/${ip}/tcp/1`))
  const all = [near, ...open]
  const first = Array.from({ length: 30 }, (_, n) => inOwnOrder(all, `worker ${n}`)[0]!)
  for (const address of open) expect(first.filter((one) => one === address).length).toBeGreaterThan(4)
  const order = inOwnOrder(all, 'a worker')
  expect(order.at(-1)).toBe(near)
  expect(inOwnOrder([...all].reverse(), 'a worker')).toEqual(order)
  // Without one of them the others keep their order.
  const left = all.filter((address) => address !== order[1])
  expect(inOwnOrder(left, 'a worker')).toEqual([order[0], order[2], order[3]])
  expect(inOwnOrder(all, 'a worker', order[1])).toEqual([order[2], order[3], order[0], order[1]])
  expect(inOwnOrder(all, 'a worker', order[3])).toEqual(order)
  expect(inOwnOrder(all, 'a worker', multiaddr('/ip4/5.5.5.9/tcp/1'))).toEqual(order)
})
