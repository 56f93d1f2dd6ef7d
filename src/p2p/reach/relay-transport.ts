import { circuitRelayTransport } from '@libp2p/circuit-relay-v2'
import type { Connection, PeerId, Stream, Transport } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import type { Inside } from '../libp2p-fixes/inside.ts'

/** The places this node holds at relays. */
export type Reservations = {
  has(peerId: string): boolean
  /** Takes a place at a relay that this node has a connection with. @throws where the relay gives none */
  take(peerId: string): Promise<void>
  /** Gives a place up, as far as the protocol knows that: it is no longer renewed nor announced. */
  release(peerId: string): void
}

/** What is used of the library's transport; its types name less than it has. */
type CircuitTransport = Transport & {
  onStop(stream: Stream, connection: Connection): Promise<void>
  reservationStore: {
    hasReservation(peer: PeerId): boolean
    addRelay(peer: PeerId, type: 'configured'): Promise<unknown>
    reservations: {
      get(peer: PeerId): { timeout: NodeJS.Timeout } | undefined
      delete(peer: PeerId): void
    }
    safeDispatchEvent(type: 'relay:removed', event: { detail: { relay: PeerId; details: object } }): void
  }
}
type Node = { getConnections(peer: PeerId): Connection[]; services: { inside: Inside } }
type Create = ReturnType<ReturnType<typeof circuitRelayTransport>>

/** The transport that dials and is dialled over relays, and the reservations it needs for the latter. */
export function createRelayTransport(): {
  transport: ReturnType<typeof circuitRelayTransport>
  reservations(libp2p: Node): Reservations
} {
  let circuit: CircuitTransport | undefined
  const create = circuitRelayTransport({ reservationCompletionTimeout: 5_000 })

  return {
    transport: (components) => {
      circuit = create(components) as unknown as CircuitTransport
      refuseStrangers(circuit)
      return circuit as unknown as Create
    },
    reservations: (libp2p) => createReservations(libp2p, circuit!),
  }
}

/** The library would take a place at whichever peer says that it relays a connection; here that is for us to choose. */
function refuseStrangers(circuit: CircuitTransport): void {
  const onStop = circuit.onStop
  circuit.onStop = async (stream, connection) => {
    if (circuit.reservationStore.hasReservation(connection.remotePeer)) return await onStop(stream, connection)
    stream.abort(new Error('this node has no reservation here'))
  }
}

function createReservations(libp2p: Node, { reservationStore }: CircuitTransport): Reservations {
  const { transportManager } = libp2p.services.inside
  /** Relays that a listener of libp2p's waits for: it notices by itself when a place is taken there again. */
  const listening = new Set<string>()

  /** The library leaves a listener behind that has failed. */
  function dropSilent(before: ReadonlySet<object>): void {
    for (const listener of transportManager.getListeners()) {
      if (!before.has(listener)) listener.dispatchEvent(new CustomEvent('close'))
    }
  }

  return {
    has: (peerId) => reservationStore.hasReservation(peerIdFromString(peerId)),

    async take(peerId) {
      const peer = peerIdFromString(peerId)
      if (listening.has(peerId)) {
        await reservationStore.addRelay(peer, 'configured')
        return
      }
      const address = libp2p.getConnections(peer).find(({ direction, limits }) => direction === 'outbound' && !limits)
      if (address === undefined) throw new Error('there is no connection to the relay')
      const before = new Set(transportManager.getListeners())
      const base = address.remoteAddr.toString().replace(/\/p2p\/[^/]+$/, '')
      await transportManager.listen([multiaddr(`${base}/p2p/${peerId}/p2p-circuit`)])
      if (reservationStore.hasReservation(peer)) listening.add(peerId)
      else {
        dropSilent(before)
        throw new Error('the relay gave no reservation')
      }
    },

    release(peerId) {
      const relay = peerIdFromString(peerId)
      const details = reservationStore.reservations.get(relay)
      if (details === undefined) return
      clearTimeout(details.timeout)
      reservationStore.reservations.delete(relay)
      reservationStore.safeDispatchEvent('relay:removed', { detail: { relay, details } })
    },
  }
}
