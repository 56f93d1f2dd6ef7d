/*
 * Upstream: not reported. Seen in libp2p 3.3.11.
 * Goes when: the peer store writes nothing when nothing changes. `upstream.test.ts` fails then.
 */

import type { Libp2p, Peer, PeerData } from '@libp2p/interface'

/**
 * Skips writes to the peer store that change nothing.
 *
 * On every new stream, at both ends, libp2p merges the stream's protocol into the peer's entry. That costs a lock, a
 * decode, an encode and a write, which change nothing from the second stream on. Every write goes through this object,
 * so the last entry returned is the stored entry.
 *
 * It remembers only connected peers, because other peers open no streams. A remembered peer holds slices of buffers of
 * 64 KiB, and keeps those buffers in memory.
 */
export function skipKnownProtocols(libp2p: Pick<Libp2p, 'peerStore' | 'getConnections' | 'addEventListener'>): void {
  const { peerStore } = libp2p
  const last = new Map<string, Peer>()
  const { merge, patch, save, delete: forget } = peerStore

  function remember(peer: Peer): Peer {
    const id = peer.id.toString()
    if (libp2p.getConnections(peer.id).length > 0) last.set(id, peer)
    else last.delete(id)
    return peer
  }
  libp2p.addEventListener('peer:disconnect', ({ detail }) => last.delete(detail.toString()))

  peerStore.merge = async (id, data, options) => {
    const known = last.get(id.toString())
    if (known !== undefined && saysNothingNew(data, known)) return known
    return remember(await merge.call(peerStore, id, data, options))
  }
  peerStore.patch = async (id, data, options) => remember(await patch.call(peerStore, id, data, options))
  peerStore.save = async (id, data, options) => remember(await save.call(peerStore, id, data, options))
  peerStore.delete = async (id, options) => {
    await forget.call(peerStore, id, options)
    last.delete(id.toString())
  }
}

function saysNothingNew(data: PeerData, known: Peer): boolean {
  const fields = Object.keys(data)
  if (fields.length !== 1 || fields[0] !== 'protocols') return false
  return data.protocols?.every((protocol) => known.protocols.includes(protocol)) ?? false
}
