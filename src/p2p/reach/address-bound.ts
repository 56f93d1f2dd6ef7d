import type { AbortOptions, Address, Peer, PeerData, PeerId, PeerStore } from '@libp2p/interface'
import { Lanes } from '../../lib/lane.ts'

/** D52: addresses kept of one peer from all sources. It bounds the memory and the cost of each merge. */
export const ADDRESSES_PER_PEER_MAX = 32
/** Addresses read from one message. More are not even compared. */
const ADDRESSES_READ_MAX = 2 * ADDRESSES_PER_PEER_MAX
const ADDRESS_BYTES_MAX = 512

/**
 * Bounds the addresses that the peer store keeps of a peer (D52). The store itself merges everything that anybody says.
 * A few kilobytes of addresses would make each further update of that peer cost milliseconds.
 *
 * Addresses that the peer signed are kept first. If this node reached the peer, known addresses go before new ones.
 * Otherwise new addresses go before known ones.
 */
export function boundAddresses({ peerStore, peerId: self }: { peerStore: PeerStore; peerId: PeerId }): void {
  const { merge, patch, save } = peerStore
  /** Two merges of one peer that read at the same time would both add addresses. */
  const merges = new Lanes()

  async function known(id: PeerId): Promise<Peer | undefined> {
    try {
      return await peerStore.get(id)
    } catch {
      return undefined
    }
  }

  peerStore.merge = async (id, data, options) => {
    const said = addressesIn(data)
    const isPlain = data.addresses === undefined && data.multiaddrs === undefined
    if (isPlain || id.equals(self)) return await merge.call(peerStore, id, data, options)
    return await merges.run(id.toString(), () => mergeBounded(id, data, said, options))
  }

  async function mergeBounded(id: PeerId, data: PeerData, said: Address[], options?: AbortOptions): Promise<Peer> {
    const peer = await known(id)
    const kept = peer?.addresses ?? []
    const texts = new Set(kept.map(({ multiaddr }) => multiaddr.toString()))
    const news = distinct(said).filter(({ multiaddr }) => !texts.has(multiaddr.toString()))
    const { multiaddrs: _, addresses: __, ...rest } = data
    if (news.length === 0 && peer !== undefined && Object.keys(rest).length === 0) return peer
    if (kept.length + news.length <= ADDRESSES_PER_PEER_MAX) {
      return await merge.call(peerStore, id, { ...rest, addresses: news }, options)
    }
    const isReached = peer?.metadata.has('last-dial-success') === true && rest.metadata === undefined
    const ordered = isReached ? [...kept, ...news] : [...news, ...kept]
    const patched = await patch.call(peerStore, id, { addresses: signedFirst(ordered) }, options)
    return Object.keys(rest).length === 0 ? patched : await merge.call(peerStore, id, rest, options)
  }

  peerStore.patch = async (id, data, options) => await patch.call(peerStore, id, bounded(id, data), options)
  peerStore.save = async (id, data, options) => await save.call(peerStore, id, bounded(id, data), options)

  function bounded(id: PeerId, data: PeerData): PeerData {
    if (id.equals(self) || (data.multiaddrs === undefined && data.addresses === undefined)) return data
    const { multiaddrs: _, addresses: __, ...rest } = data
    return { ...rest, addresses: signedFirst(distinct(addressesIn(data))) }
  }
}

/** The first addresses of the data, signed before unsigned. */
function addressesIn({ addresses = [], multiaddrs = [] }: PeerData): Address[] {
  const unsigned = multiaddrs.slice(0, ADDRESSES_READ_MAX).map((multiaddr) => ({ multiaddr, isCertified: false }))
  return [...addresses.slice(0, ADDRESSES_READ_MAX), ...unsigned]
    .slice(0, ADDRESSES_READ_MAX)
    .filter(({ multiaddr }) => multiaddr.bytes.length <= ADDRESS_BYTES_MAX)
}

function distinct(addresses: readonly Address[]): Address[] {
  return [...new Map(addresses.toReversed().map((one) => [one.multiaddr.toString(), one])).values()].toReversed()
}

function signedFirst(addresses: readonly Address[]): Address[] {
  const signed = addresses.filter(({ isCertified }) => isCertified === true)
  const unsigned = addresses.filter(({ isCertified }) => isCertified !== true)
  return [...signed, ...unsigned].slice(0, ADDRESSES_PER_PEER_MAX)
}
