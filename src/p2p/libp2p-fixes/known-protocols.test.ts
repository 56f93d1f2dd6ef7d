import type { Libp2p, PeerData, PeerId } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { expect, test, vi } from 'vitest'
import { skipKnownProtocols } from './known-protocols.ts'

const peer = peerIdFromString('12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5')
const data = { protocols: ['/test/1.0.0'] }

function setup() {
  const merge = vi.fn(async (id: PeerId, { protocols = [] }: PeerData) => ({ id, protocols }))
  const peerStore = { merge, patch: vi.fn(), save: vi.fn(), delete: vi.fn() }
  const connections: unknown[] = [{}]
  const libp2p = Object.assign(new EventTarget(), { peerStore, getConnections: () => connections })
  skipKnownProtocols(libp2p as unknown as Libp2p)
  const leave = () => {
    connections.length = 0
    libp2p.dispatchEvent(new CustomEvent('peer:disconnect', { detail: peer }))
  }
  return { libp2p: libp2p as unknown as Libp2p, merge, leave }
}

test('what is known of a connected peer is not written again', async () => {
  const { libp2p, merge } = setup()
  for (let stream = 0; stream < 3; stream++) expect(await libp2p.peerStore.merge(peer, data)).toMatchObject(data)
  expect(merge).toHaveBeenCalledTimes(1)
  await libp2p.peerStore.merge(peer, { protocols: ['/other/1.0.0'] })
  expect(merge).toHaveBeenCalledTimes(2)
})

test('T19: nothing is kept of a peer that is not connected', async () => {
  const { libp2p, merge, leave } = setup()
  await libp2p.peerStore.merge(peer, data)
  leave()
  await libp2p.peerStore.merge(peer, data)
  await libp2p.peerStore.merge(peer, data)
  expect(merge).toHaveBeenCalledTimes(3)
})
