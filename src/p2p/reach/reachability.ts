import { isPrivate } from '@libp2p/utils'
import type { Multiaddr } from '@multiformats/multiaddr'
import { isRelayed, relayOf } from '../multiaddrs.ts'
import type { Forwarding } from '../upnp/port-mapping.ts'

/** Whether others can reach this node, and what to do if they cannot. */
export type Reachability = {
  state: 'public' | 'relayed' | 'unreachable' | 'unknown'
  /** Addresses that others can dial from anywhere, directly or over a relay. */
  addresses: string[]
  /**
   * Peer ids of the relays that this node is reached through. A public node keeps them until strangers have connected
   * directly.
   */
  relays: string[]
  reason?: string
  fix?: string
  /** The router's answer, if it was asked. */
  forwarding?: Forwarding
}

type ReachabilityFacts = {
  /** The addresses that this node announces. */
  addresses: readonly Multiaddr[]
  /** The addresses that the operator announced. */
  announced: readonly Multiaddr[]
  relays: readonly string[]
  /** The remote addresses of its connections. */
  connectedTo: readonly Multiaddr[]
  /** Number of connected peers that would relay for it. */
  relaysOffered: number
  port: number
  uptimeMs: number
  /** The router's answer. Undefined if the router is not asked. */
  forwarding?: Forwarding | undefined
}

/** Time for a peer to dial back, and for a relay to be found. */
const SETTLING_MS = 20_000

export function reachabilityOf(facts: ReachabilityFacts): Reachability {
  const { forwarding } = facts
  const found = judge(facts)
  if (forwarding === undefined) return found
  const matters = forwarding.state === 'mapped' || found.state !== 'public'
  return { ...found, ...(matters && { reason: `${found.reason}; ${forwarding.says}` }), forwarding }
}

function judge(facts: ReachabilityFacts): Reachability & { reason: string } {
  const { announced, relays, connectedTo, port } = facts
  const open = publicAddresses(facts.addresses)
  if (open.length > 0) {
    const said = open.every((address) => announced.some((one) => address.toString().startsWith(one.toString())))
    const reason = said ? 'its operator announced the address; nobody has proved it' : 'peers have dialed it back'
    return { state: 'public', addresses: open.map(String), relays: [...relays], reason }
  }
  const forward =
    facts.forwarding?.state === 'mapped'
      ? `let the firewall of this machine take what the router passes on, TCP port ${port}`
      : `forward TCP port ${port} to this machine and set NODE_ANNOUNCE_ADDR=/ip4/<public address>/tcp/${port}`
  if (relays.length > 0) {
    const addresses = facts.addresses.filter(isRelayed).map(String)
    const reason = 'none of its own addresses can be dialed from outside, so calls come over a relay'
    return { state: 'relayed', addresses, relays: [...relays], reason, fix: `to be called directly, ${forward}` }
  }
  const unknown = (reason: string) => ({ state: 'unknown' as const, addresses: [], relays: [], reason })
  if (connectedTo.length === 0) {
    return { ...unknown('no peer is connected that could tell'), fix: 'name a peer with --bootstrap' }
  }
  if (connectedTo.every((address) => isPrivate(relayOf(address) ?? address))) {
    return unknown('only peers of local networks are connected, and these do reach it')
  }
  if (facts.uptimeMs < SETTLING_MS) return unknown('it is still being found out')
  const offers = facts.relaysOffered === 0 ? 'no connected peer is a relay' : 'no connected relay has a place for it'
  const reason = `none of its own addresses can be dialed from outside, and ${offers}`
  return {
    state: 'unreachable',
    addresses: [],
    relays: [],
    reason,
    fix: `${forward}; or ${facts.forwarding === undefined ? 'try --upnp, or ' : ''}name a relay with --relay-via`,
  }
}

/** The addresses that can be dialed from anywhere, without a relay. */
export function publicAddresses(addresses: readonly Multiaddr[]): Multiaddr[] {
  return addresses.filter((address) => !isRelayed(address) && !isPrivate(address))
}
