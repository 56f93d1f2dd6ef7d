import { type CircuitRelayServerComponents, circuitRelayServer } from '@libp2p/circuit-relay-v2'
import type { Connection, PeerId, Stream } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { boundFirstMessage } from '../libp2p-fixes/relay-messages.ts'
import { hostIn, siteOf } from '../networks.ts'

/**
 * Limits of what a relay carries. They are enough for the largest calls (8 MiB frames) one after another, but not for a
 * backup.
 */
const RESERVATIONS_MAX = 128
/** Reservations of one IPv4 address or one /64, for all its peer ids together. */
const RESERVATIONS_PER_SITE_MAX = 8
const BYTES_MAX = 64n * 1024n * 1024n
const CONNECTION_MS_MAX = 10 * 60 * 1000
/** Connections that one peer may have relayed at a time, in each direction. */
const STREAMS_PER_PEER_MAX = 64

type Limit = { duration?: number; data?: bigint }
type Hop = { stream: { pb(codec: unknown): { write(message: { limit?: Limit }, options?: object): unknown } } }
type Stop = { request: { limit?: Limit } }

/** The parts of the library's relay used here. Its types do not declare all of them. */
type Server = {
  reservationStore: {
    reservations: {
      has(peer: PeerId): boolean
      get(peer: PeerId): { signal: { clear(): void } } | undefined
      values(): Iterable<{ addr: Multiaddr }>
      delete(peer: PeerId): void
    }
    reserve(peer: PeerId, address: Multiaddr, limit?: Limit): { status: string; expire?: number }
  }
  onHop(stream: Stream, connection: Connection): Promise<void>
  handleHopProtocol(hop: Hop, options: object): Promise<void>
  stopHop(stop: Stop, options: object): Promise<unknown>
}

export type RelayServer = { relaysFor(peer: PeerId): boolean }
type Components = CircuitRelayServerComponents & { events: EventTarget }

/**
 * A relay for others. Nobody can hoard its reservations: an address gets only a few, and a reservation ends when its
 * holder leaves. The library keeps reservations for two hours. It also sends its time limit in milliseconds, but the
 * protocol uses seconds.
 */
export function createRelayServer(components: Components): RelayServer {
  const create = circuitRelayServer({
    maxInboundHopStreams: STREAMS_PER_PEER_MAX,
    maxOutboundStopStreams: STREAMS_PER_PEER_MAX,
    reservations: {
      maxReservations: RESERVATIONS_MAX,
      defaultDataLimit: BYTES_MAX,
      defaultDurationLimit: CONNECTION_MS_MAX,
    },
  })
  const server = create(components) as unknown as Server
  limitSites(server)
  limitRequests(server)
  saySeconds(server)
  const { reservations } = server.reservationStore
  components.events.addEventListener('peer:disconnect', (event) => {
    const peer = (event as CustomEvent<PeerId>).detail
    reservations.get(peer)?.signal.clear()
    reservations.delete(peer)
  })
  return Object.assign(server, { relaysFor: (peer: PeerId) => reservations.has(peer) })
}

function limitSites({ reservationStore: store }: Server): void {
  const { reserve } = store
  store.reserve = (peer, address, limit) => {
    const site = siteOf(hostIn(address))
    const held = [...store.reservations.values()].filter(({ addr }) => siteOf(hostIn(addr)) === site).length
    if (!store.reservations.has(peer) && held >= RESERVATIONS_PER_SITE_MAX) return { status: 'RESERVATION_REFUSED' }
    return reserve.call(store, peer, address, limit)
  }
}

/** The library would read and check each address of a request of 4 MiB. */
function limitRequests(server: Server): void {
  const onHop = server.onHop
  server.onHop = (stream, connection) => {
    boundFirstMessage(stream)
    return onHop.call(server, stream, connection)
  }
}

/** Converts the time limit only in messages. Inside the library it stays in milliseconds. */
function saySeconds(server: Server): void {
  const { handleHopProtocol, stopHop } = server
  server.handleHopProtocol = (hop, options) => {
    const stream = Object.create(hop.stream) as Hop['stream']
    stream.pb = (codec) => {
      const messages = hop.stream.pb(codec)
      const telling = Object.create(messages) as typeof messages
      telling.write = (message, more) => messages.write(inSeconds(message), more)
      return telling
    }
    return handleHopProtocol.call(server, { ...hop, stream }, options)
  }
  server.stopHop = (stop, options) => stopHop.call(server, { ...stop, request: inSeconds(stop.request) }, options)
}

function inSeconds<M extends { limit?: Limit }>(message: M): M {
  const { limit } = message
  if (limit?.duration === undefined) return message
  return { ...message, limit: { ...limit, duration: Math.round(limit.duration / 1000) } }
}
