import type { PeerId } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import { beforeEach, expect, test } from 'vitest'
import { ADDRESSES_PER_PEER_MAX, boundAddresses } from './address-bound.ts'

const peer = peerIdFromString('12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5')
let libp2p: Libp2p

beforeEach(async () => {
  libp2p = await createLibp2p({ start: false })
  boundAddresses(libp2p)
})

const places = (from: number, count: number): Multiaddr[] =>
  Array.from({ length: count }, (_, at) => multiaddr(`/ip4/10.0.${(from + at) >> 8}.${(from + at) & 255}/tcp/4001`))

async function kept(id: PeerId = peer): Promise<string[]> {
  return (await libp2p.peerStore.get(id)).addresses.map((one) => one.multiaddr.toString())
}

test('D52: however many addresses are told of a peer, at once or one by one, 32 are kept', async () => {
  await libp2p.peerStore.merge(peer, { multiaddrs: places(0, 2500) })
  for (let at = 0; at < 40; at++) await libp2p.peerStore.merge(peer, { multiaddrs: places(5000 + at, 1) })
  expect(await kept()).toHaveLength(ADDRESSES_PER_PEER_MAX)
  await libp2p.peerStore.patch(peer, { multiaddrs: places(0, 2500) })
  expect(await kept()).toHaveLength(ADDRESSES_PER_PEER_MAX)
})

test('D52: what is told at the same time is bounded as well', async () => {
  const telling = Array.from({ length: 20 }, (_, at) =>
    libp2p.peerStore.merge(peer, { multiaddrs: places(at * 20, 20) }),
  )
  await Promise.all(telling)
  expect(await kept()).toHaveLength(ADDRESSES_PER_PEER_MAX)
})

test('D52: what a peer has signed is not displaced by what others say', async () => {
  const [signed] = places(9000, 1)
  await libp2p.peerStore.patch(peer, { addresses: [{ multiaddr: signed!, isCertified: true }] })
  await libp2p.peerStore.merge(peer, { multiaddrs: places(0, 64) })
  expect(await kept()).toContain(signed!.toString())
})

test('D52: of a peer that was reached, what is known is not displaced by hearsay', async () => {
  const metadata = { 'last-dial-success': new Uint8Array(1) }
  await libp2p.peerStore.merge(peer, { multiaddrs: places(9000, 1), metadata })
  await libp2p.peerStore.merge(peer, { multiaddrs: places(0, 64) })
  expect(await kept()).toContain(places(9000, 1)[0]!.toString())
})

test('an address of more than 512 bytes is not kept', async () => {
  const long = multiaddr(`/dns4/${'a'.repeat(600)}/tcp/4001`)
  await libp2p.peerStore.merge(peer, { multiaddrs: [long, ...places(0, 1)] })
  expect(await kept()).toEqual(places(0, 1).map(String))
})
