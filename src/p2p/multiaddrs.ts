import { createHash } from 'node:crypto'
import { peerIdFromString } from '@libp2p/peer-id'
import { isLinkLocal, isLoopback, isPrivate } from '@libp2p/utils'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { CodedError, reasonOf } from '../lib/errors.ts'

/** A peer and the addresses at which it can be dialed. */
export type PeerAddresses = { peerId: string; addresses: Multiaddr[] }

const IP_HOSTS = ['ip4', 'ip6']
const CIRCUIT = 'p2p-circuit'
const NAMED_HOSTS = ['dns', 'dns4', 'dns6']
const BOOTSTRAP_FORM = '/ip4/<ip>/tcp/<port>/p2p/<peer id> or /dnsaddr/<name>'
/** A bare name: its TXT records name the peers. */
const NAME_ALONE = /^\/dnsaddr\/([^/]+)$/
const ANNOUNCE_FORM = '/ip4/<ip>/tcp/<port> or /ip4/<ip>/udp/<port>/quic-v1'

/**
 * The peers for joining the network, with their addresses grouped. This node's own addresses are left out, so that all
 * nodes can share one list. For an address over a relay, the relay is one of the peers. Bare names are left to
 * `namesIn`.
 *
 * @throws CodedError `BAD_MULTIADDR` with the first unusable address and the expected form
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
    // Most messages between peers do not use a relay, so connect to the relay itself too.
    if (relay !== undefined && relayId !== undefined) add(relayId, relay)
    add(peerId, address)
  }
  return Array.from(peers, ([peerId, addresses]) => ({ peerId, addresses }))
}

/** The distinct bare names among bootstrap addresses. `NamedPeers` finds the peers they lead to. */
export function namesIn(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap((text) => NAME_ALONE.exec(text)?.[1] ?? []))]
}

/** The relays that the operator named. @throws CodedError `BAD_MULTIADDR` */
export function parseRelays(texts: readonly string[], ownPeerId: string): PeerAddresses[] {
  for (const text of texts) if (text.includes(`/${CIRCUIT}`)) throw bad(text, 'relay', BOOTSTRAP_FORM)
  return parseBootstrap(texts, ownPeerId)
}

/**
 * The addresses at which the operator says this node can be reached, without `/p2p/`.
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
 * The addresses among `texts` that this node can dial to reach the peer, the best first. Each ends in the peer's
 * `/p2p/`. Others wrote the texts, so unreadable addresses and those of other peers are left out.
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

/**
 * The transport of this node that dials the address. Undefined for all other addresses (relayed, unix sockets, web
 * transports …).
 */
export function transportOf(address: Multiaddr): 'tcp' | 'quic' | undefined {
  const names = address.getComponents().map((part) => part.name)
  if (names.at(-1) === 'p2p') names.pop()
  const [host = '', ...rest] = names
  const stack = rest.join('/')
  if (stack === 'tcp' && (IP_HOSTS.includes(host) || NAMED_HOSTS.includes(host))) return 'tcp'
  // The QUIC module does not resolve names.
  if (stack === 'udp/quic-v1' && IP_HOSTS.includes(host)) return 'quic'
  return undefined
}

/** True if this node can dial the address directly, or over a relay that it can dial. */
export function isDialable(address: Multiaddr): boolean {
  if (!isRelayed(address)) return isDirect(address)
  const relay = relayOf(address)
  return relay !== undefined && peerIdIn(relay) !== undefined && isDirect(relay)
}

export function isRelayed(address: Multiaddr): boolean {
  return address.getComponents().some(({ name }) => name === CIRCUIT)
}

/** The relay's own address, if the address leads over exactly one relay. */
export function relayOf(address: Multiaddr): Multiaddr | undefined {
  const parts = address.getComponents()
  const at = parts.findIndex(({ name }) => name === CIRCUIT)
  const rest = parts.slice(at + 1).map(({ name }) => name)
  return at < 0 || !['', 'p2p'].includes(rest.join('/')) ? undefined : multiaddr(parts.slice(0, at))
}

/** True if the address has a transport of this node, a port, and a real host. */
function isDirect(address: Multiaddr): boolean {
  if (transportOf(address) === undefined) return false
  const [host, port] = address.getComponents()
  return Number(port?.value) > 0 && host?.value !== '0.0.0.0' && host?.value !== '::'
}

/**
 * Sorts addresses: public, private, loopback, then relayed. Among equals TCP is before QUIC, because it carries more.
 */
export function bestFirst(addresses: readonly Multiaddr[]): Multiaddr[] {
  return addresses.toSorted((a, b) => rankOf(a) - rankOf(b))
}

function rankOf(address: Multiaddr): number {
  const reach = isLoopback(address) ? 4 : isPrivate(address) ? 2 : 0
  const transport = transportOf(relayOf(address) ?? address) === 'tcp' ? 0 : 1
  return (isRelayed(address) ? 8 : 0) + reach + transport
}

/**
 * Puts one of the first addresses of equal rank in front, so that the buyers of a seller with several processes do not all
 * begin at the same one.
 *
 * @param random from 0 to less than 1
 */
export function startAnywhere(addresses: readonly Multiaddr[], random: () => number = Math.random): Multiaddr[] {
  const [first] = addresses
  if (first === undefined || isRelayed(first)) return [...addresses]
  const equal = addresses.filter((address) => rankOf(address) === rankOf(first))
  const start = equal[Math.floor(random() * equal.length)]!
  return [start, ...addresses.filter((address) => address !== start)]
}

/**
 * The best addresses first, and those of equal rank in an order of the one who dials, which is the same at each start: so
 * the workers of a seller with several processes spread over them.
 *
 * @param after the address that was dialed before. The order goes on after it, and comes to it last.
 */
export function inOwnOrder(addresses: readonly Multiaddr[], dialer: string, after?: Multiaddr): Multiaddr[] {
  const weight = (address: Multiaddr) => createHash('sha256').update(`${dialer} ${address}`).digest('hex')
  const order = addresses
    .map((address) => ({ address, weight: weight(address) }))
    .sort((a, b) => rankOf(a.address) - rankOf(b.address) || (a.weight < b.weight ? -1 : 1))
    .map(({ address }) => address)
  const at = after === undefined ? -1 : order.findIndex((address) => address.equals(after))
  return [...order.slice(at + 1), ...order.slice(0, at + 1)]
}

/**
 * The addresses worth telling others. Link-local addresses are left out: they need an interface name that means nothing
 * on other machines. If a relay has a public address, its other addresses are left out too.
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

/** The peer id at the end of an address. Undefined if there is none or it is not valid. */
function peerIdIn(address: Multiaddr): string | undefined {
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

/** Reads an address that ends in a peer id, or a bare peer id. Undefined for any other text. */
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

/**
 * The addresses of several processes of one peer, the best first. Among equals each process has its first address before
 * any has its second, so that a list that is cut still names all of them.
 */
export function mergeAddresses(lists: readonly (readonly string[])[]): string[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  const inTurn = Array.from({ length: longest }, (_, at) => lists.flatMap((list) => list[at] ?? [])).flat()
  return bestFirst([...new Set(inTurn)].flatMap((text) => tryParse(text) ?? [])).map(String)
}
