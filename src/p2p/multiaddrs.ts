import { peerIdFromString } from '@libp2p/peer-id'
import { isLinkLocal, isLoopback, isPrivate } from '@libp2p/utils'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { CodedError, reasonOf } from '../lib/errors.ts'

/** A peer and where it can be dialled. */
export type PeerAddresses = { peerId: string; addresses: Multiaddr[] }

const IP_HOSTS = ['ip4', 'ip6']
const CIRCUIT = 'p2p-circuit'
const NAMED_HOSTS = ['dns', 'dns4', 'dns6']
const BOOTSTRAP_FORM = '/ip4/<ip>/tcp/<port>/p2p/<peer id> or /dnsaddr/<name>'
/** A name alone: its TXT records name the peers. */
const NAME_ALONE = /^\/dnsaddr\/([^/]+)$/
const ANNOUNCE_FORM = '/ip4/<ip>/tcp/<port> or /ip4/<ip>/udp/<port>/quic-v1'

/**
 * The peers to join the network by, their addresses grouped; this node's own are left out, so that all nodes may share
 * one list. Of an address over a relay, the relay is one of them. Names alone are left to `namesIn`.
 *
 * @throws CodedError `BAD_MULTIADDR` naming the first address that cannot be used, and the form expected
 */
export function parseBootstrap(texts: readonly string[], ownPeerId: string): PeerAddresses[] {
  const peers = new Map<string, Multiaddr[]>()
  const add = (peerId: string, address: Multiaddr) => {
    const known = peers.get(peerId) ?? []
    const isNew = known.every((one) => !one.equals(address))
    if (peerId !== ownPeerId && isNew) peers.set(peerId, [...known, address])
  }
  for (const text of texts) {
    const address = parse(text, 'bootstrap', BOOTSTRAP_FORM)
    if (NAME_ALONE.test(text)) continue
    const peerId = peerIdIn(address)
    const dnsaddr = address.getComponents()[0]?.name === 'dnsaddr'
    if (peerId === undefined || !(dnsaddr || isDialable(address))) throw bad(text, 'bootstrap', BOOTSTRAP_FORM)
    const relay = isRelayed(address) ? relayOf(address) : undefined
    const relayId = relay && peerIdIn(relay)
    // Most of what peers say to each other goes over no relay: the relay itself is met for that.
    if (relay !== undefined && relayId !== undefined) add(relayId, relay)
    add(peerId, address)
  }
  return Array.from(peers, ([peerId, addresses]) => ({ peerId, addresses }))
}

/** The names among addresses of peers to join by, each once: `NamedPeers` finds out whom they lead to. */
export function namesIn(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap((text) => NAME_ALONE.exec(text)?.[1] ?? []))]
}

/** The relays the operator named. @throws CodedError `BAD_MULTIADDR` */
export function parseRelays(texts: readonly string[], ownPeerId: string): PeerAddresses[] {
  for (const text of texts) if (text.includes(`/${CIRCUIT}`)) throw bad(text, 'relay', BOOTSTRAP_FORM)
  return parseBootstrap(texts, ownPeerId)
}

/**
 * The addresses the operator says this node can be reached at, without `/p2p/`.
 *
 * @throws CodedError `BAD_MULTIADDR`
 */
export function parseAnnounce(texts: readonly string[], ownPeerId: string): Multiaddr[] {
  return texts.map((text) => {
    const address = parse(text, 'announce', ANNOUNCE_FORM)
    const peerId = peerIdIn(address)
    const others = address.getComponents().some((part) => part.name === 'p2p') && peerId !== ownPeerId
    if (others || !isDirect(address)) throw bad(text, 'announce', ANNOUNCE_FORM)
    return withoutPeerId(address)
  })
}

/**
 * What of `texts` this node can dial to reach the peer, each ending in its `/p2p/`, best first. Others wrote the texts:
 * whatever cannot be read, or is another peer's, is left out.
 */
export function addressesOf(peerId: string, texts: readonly (string | Multiaddr)[]): Multiaddr[] {
  const addresses = new Map<string, Multiaddr>()
  for (const text of texts) {
    const address = tryParse(text)
    if (address === undefined || !isDialable(address)) continue
    const named = peerIdIn(address)
    if (named !== undefined && named !== peerId) continue
    const full = named === undefined ? address.encapsulate(`/p2p/${peerId}`) : address
    addresses.set(full.toString(), full)
  }
  return bestFirst([...addresses.values()])
}

/** Which transport of this node dials the address; undefined for all others (relayed, unix sockets, web transports …). */
export function transportOf(address: Multiaddr): 'tcp' | 'quic' | undefined {
  const names = address.getComponents().map((part) => part.name)
  if (names.at(-1) === 'p2p') names.pop()
  const [host = '', ...rest] = names
  const stack = rest.join('/')
  if (stack === 'tcp' && (IP_HOSTS.includes(host) || NAMED_HOSTS.includes(host))) return 'tcp'
  // The QUIC module resolves no names.
  if (stack === 'udp/quic-v1' && IP_HOSTS.includes(host)) return 'quic'
  return undefined
}

/** Whether dialling the address can lead anywhere: directly, or over a relay that can be dialled itself. */
export function isDialable(address: Multiaddr): boolean {
  if (!isRelayed(address)) return isDirect(address)
  const relay = relayOf(address)
  return relay !== undefined && peerIdIn(relay) !== undefined && isDirect(relay)
}

/** Whether the address leads over a relay. */
export function isRelayed(address: Multiaddr): boolean {
  return address.getComponents().some(({ name }) => name === CIRCUIT)
}

/** The relay's own address, where the address leads over exactly one. */
export function relayOf(address: Multiaddr): Multiaddr | undefined {
  const parts = address.getComponents()
  const at = parts.findIndex(({ name }) => name === CIRCUIT)
  const rest = parts.slice(at + 1).map(({ name }) => name)
  return at < 0 || !['', 'p2p'].includes(rest.join('/')) ? undefined : multiaddr(parts.slice(0, at))
}

/** A transport of ours, a port, and a host that is one. */
export function isDirect(address: Multiaddr): boolean {
  if (transportOf(address) === undefined) return false
  const [host, port] = address.getComponents()
  return Number(port?.value) > 0 && host?.value !== '0.0.0.0' && host?.value !== '::'
}

/** Public before private before loopback addresses before relayed ones; TCP before QUIC among equals, as it carries more. */
export function bestFirst(addresses: readonly Multiaddr[]): Multiaddr[] {
  const rank = (address: Multiaddr) =>
    (isRelayed(address) ? 8 : 0) +
    (isLoopback(address) ? 4 : isPrivate(address) ? 2 : 0) +
    (transportOf(relayOf(address) ?? address) === 'tcp' ? 0 : 1)
  return addresses.toSorted((a, b) => rank(a) - rank(b))
}

/**
 * Addresses worth telling others: link-local ones need an interface name that means nothing elsewhere, and a relay with a
 * public address needs no other.
 */
export function announceable(addresses: readonly Multiaddr[]): Multiaddr[] {
  const reach = (address: Multiaddr) => (isLoopback(address) ? 2 : isPrivate(address) ? 1 : 0)
  const relays = new Map(addresses.filter(isRelayed).map((address) => [address, relayOf(address) ?? address]))
  const best = Math.min(...[...relays.values()].map(reach))
  return addresses.filter((address) => {
    const relay = relays.get(address)
    return !isLinkLocal(relay ?? address) && (relay === undefined || reach(relay) === best)
  })
}

function parse(text: string, kind: string, form: string): Multiaddr {
  try {
    return multiaddr(text)
  } catch (error) {
    throw bad(text, kind, form, error)
  }
}

function tryParse(text: string | Multiaddr): Multiaddr | undefined {
  try {
    return typeof text === 'string' ? multiaddr(text) : text
  } catch {
    return undefined
  }
}

/** The peer id an address ends in, if it does and it is one. */
export function peerIdIn(address: Multiaddr): string | undefined {
  const last = address.getComponents().at(-1)
  if (last?.name !== 'p2p' || last.value === undefined) return undefined
  try {
    return peerIdFromString(last.value).toString()
  } catch {
    return undefined
  }
}

function withoutPeerId(address: Multiaddr): Multiaddr {
  return multiaddr(address.getComponents().filter((part) => part.name !== 'p2p'))
}

function bad(text: string, kind: string, form: string, cause?: unknown): CodedError<'BAD_MULTIADDR'> {
  const shown = text.length > 200 ? `${text.slice(0, 200)}…` : text
  const why = cause === undefined ? '' : ` (${reasonOf(cause)})`
  return new CodedError('BAD_MULTIADDR', `${kind} address "${shown}" cannot be used${why}; expected ${form}`, { cause })
}

/** A peer that is named by an address which ends in its id, or by its id alone; undefined for anything else. */
export function peerAt(text: string): { peerId: string; addrs: string[] } | undefined {
  const isAddress = text.startsWith('/')
  try {
    const peerId = isAddress ? peerIdIn(multiaddr(text)) : peerIdFromString(text).toString()
    if (peerId === undefined) return undefined
    return { peerId, addrs: isAddress ? [text.replace(/\/p2p\/[^/]+$/, '')] : [] }
  } catch {
    return undefined
  }
}
