/*
 * Upstream: not reported. Seen in @libp2p/circuit-relay-v2 4.2.13, which announces every address that a relay names.
 * Goes when: the library bounds the addresses of a reservation.
 */

import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { bestFirst, isRelayed } from '../multiaddrs.ts'

/** Addresses kept of one relay. An honest relay may name more, two for each network of its machine. */
const RELAY_ADDRESSES_MAX = 8
/** Characters of an address, as the reports of processes have them. Listings have 512. */
const ADDRESS_LENGTH_MAX = 500
/** What this node appends: `/p2p-circuit/p2p/` and its own peer id. */
const APPENDED_LENGTH = 80

/**
 * The best addresses of a relay, as many as are kept. Addresses that are too long, and addresses over another relay, are
 * left out.
 *
 * @throws an error if an address does not end in the peer id of the relay
 */
export function relayAddresses(addrs: readonly Uint8Array[], relay: string): Uint8Array[] {
  const addresses = addrs.map((bytes) => multiaddr(bytes)).map((address) => named(address, relay))
  const fit = addresses.filter(
    (address) => !isRelayed(address) && address.toString().length + APPENDED_LENGTH <= ADDRESS_LENGTH_MAX,
  )
  return bestFirst(fit)
    .slice(0, RELAY_ADDRESSES_MAX)
    .map(({ bytes }) => bytes)
}

/** The address with the peer id of the relay, which the address of a connection may lack. */
function named(address: Multiaddr, relay: string): Multiaddr {
  const parts = address.getComponents()
  if (parts.every(({ name }) => name !== 'p2p')) return address.encapsulate(`/p2p/${relay}`)
  const last = parts.at(-1)
  if (last?.name === 'p2p' && last.value === relay) return address
  throw new Error('the relay named an address of another peer')
}
