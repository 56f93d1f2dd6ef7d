import type { Peer, PeerData, PeerStore } from '@libp2p/interface'

const PEERS_MAX = 1000

/**
 * Spares the peer store what it knows already.
 *
 * libp2p merges a stream's protocol into the peer's entry on every new stream, at both ends: a lock, a decode, an encode
 * and a write that change nothing from the second stream on. Every write goes through this object, so the entry it
 * returned last is the one that is stored.
 */
export function skipKnownProtocols(peerStore: PeerStore): void {
  const last = new Map<string, Peer>()
  const { merge, patch, save, delete: forget } = peerStore

  function remember(peer: Peer): Peer {
    const id = peer.id.toString()
    last.delete(id)
    last.set(id, peer)
    if (last.size > PEERS_MAX) last.delete(last.keys().next().value as string)
    return peer
  }

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
