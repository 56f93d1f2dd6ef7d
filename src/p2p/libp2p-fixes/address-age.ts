/*
 * Upstream: not reported. Expiry came with https://github.com/libp2p/js-libp2p/pull/3019. Seen in @libp2p/peer-store 12.0.28.
 * Goes when: the peer store renews the date of an address that is confirmed. `upstream.test.ts` fails then.
 */

import type { PeerId, PeerStore } from '@libp2p/interface'

/** Well below the day after which identify counts an address as old. */
const RENEW_EVERY_MS = 60 * 60 * 1000

/** Renews the addresses of connected peers every hour. */
export class AddressRenewal {
  readonly #libp2p: { peerStore: PeerStore }
  /** By peer id: when its addresses are renewed next. */
  readonly #dueAt = new Map<string, number>()

  constructor(libp2p: { peerStore: PeerStore }) {
    this.#libp2p = libp2p
  }

  /** @param connected all peers that are connected now. Others are not remembered */
  async renewDue(connected: readonly PeerId[]): Promise<void> {
    const peers = new Map(connected.map((peer) => [peer.toString(), peer]))
    for (const id of this.#dueAt.keys()) if (!peers.has(id)) this.#dueAt.delete(id)
    for (const [id, peer] of peers) {
      const dueAt = this.#dueAt.get(id)
      if (dueAt !== undefined && dueAt > performance.now()) continue
      if (dueAt !== undefined) await renewAddresses(this.#libp2p, peer)
      this.#dueAt.set(id, performance.now() + RENEW_EVERY_MS)
    }
  }
}

/** Renews the dates of a connected peer's addresses. */
export async function renewAddresses({ peerStore }: { peerStore: PeerStore }, peer: PeerId): Promise<void> {
  try {
    const { addresses } = await peerStore.get(peer)
    if (addresses.length === 0) return
    await peerStore.patch(peer, { addresses: [] })
    await peerStore.patch(peer, { addresses })
  } catch {
    // The peer was forgotten in the meantime.
  }
}
