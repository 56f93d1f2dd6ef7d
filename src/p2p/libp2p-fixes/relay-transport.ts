/*
 * Upstream: https://github.com/libp2p/js-libp2p/issues/3601 (open). Seen in @libp2p/circuit-relay-v2 4.2.13.
 * Goes when: the library makes a lost reservation again, and lets us choose at which relays.
 */

import { circuitRelayTransport } from '@libp2p/circuit-relay-v2'
import type { Connection, PeerId, Stream, Transport } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import { BoundedMap } from '../../lib/bounded-map.ts'
import type { Inside } from './inside.ts'
import { boundAnswers, boundFirstMessage } from './relay-messages.ts'
import { relayAddresses } from './reservation-addresses.ts'

/** Relays remembered that gave an answer which no honest relay gives. Beyond it the oldest is forgotten. */
const DISHONEST_MAX = 200
/** For how long no reservation is made there. */
const DISHONEST_MS = 60 * 60 * 1000

/** The reservations that this node holds at relays. */
export type Reservations = {
  has(peerId: string): boolean
  /** Makes a reservation at a connected relay. @throws an error if the relay gives none */
  take(peerId: string): Promise<void>
  /** Gives up a reservation, as far as the protocol allows: it is no longer renewed or announced. */
  release(peerId: string): void
  /** True if the relay lately gave an answer that was too long, or that named addresses of another peer. */
  isDishonest(peerId: string): boolean
}

type Reservation = { timeout: NodeJS.Timeout; reservation: { addrs: Uint8Array[] } }

/** The parts of the library's transport used here. Its types do not declare all of them. */
type CircuitTransport = Transport & {
  onStop(stream: Stream, connection: Connection): Promise<void>
  reservationStore: {
    hasReservation(peer: PeerId): boolean
    addRelay(peer: PeerId, type: 'configured'): Promise<unknown>
    reservations: {
      get(peer: PeerId): Reservation | undefined
      set(peer: PeerId, reservation: Reservation): unknown
      delete(peer: PeerId): void
    }
    safeDispatchEvent(type: 'relay:removed', event: { detail: { relay: PeerId; details: object } }): void
  }
}
type ConnectedNode = { getConnections(peer: PeerId): Connection[]; services: { inside: Inside } }
type Create = ReturnType<ReturnType<typeof circuitRelayTransport>>

/** The transport that dials and is dialed over relays, and the reservations for being dialed. */
export function createRelayTransport(): {
  transport: ReturnType<typeof circuitRelayTransport>
  reservations(libp2p: ConnectedNode): Reservations
} {
  let circuit: CircuitTransport | undefined
  const dishonest = new BoundedMap<string, number>(DISHONEST_MAX)
  const blame = (relay: string) => void dishonest.set(relay, performance.now())
  const create = circuitRelayTransport({ reservationCompletionTimeout: 5_000 })

  return {
    transport: (components) => {
      circuit = create(boundAnswers(components, blame)) as unknown as CircuitTransport
      refuseStrangers(circuit)
      boundAddresses(circuit, blame)
      return circuit as unknown as Create
    },
    reservations: (libp2p) => ({
      ...createReservations(libp2p, circuit!),
      isDishonest: (peerId) => performance.now() - (dishonest.get(peerId) ?? Number.NEGATIVE_INFINITY) < DISHONEST_MS,
    }),
  }
}

/**
 * Accepts relayed connections only from relays where this node has a reservation. The library would make a reservation
 * at any peer that claims to relay a connection.
 */
function refuseStrangers(circuit: CircuitTransport): void {
  const onStop = circuit.onStop
  circuit.onStop = async (stream, connection) => {
    if (!circuit.reservationStore.hasReservation(connection.remotePeer)) {
      stream.abort(new Error('this node has no reservation here'))
      return
    }
    boundFirstMessage(stream)
    await onStop(stream, connection)
  }
}

/**
 * Keeps the best few addresses of each reservation, the first and all renewals. The library announces every address that
 * the relay names. Where an address is of another peer, it gives up the reservation.
 */
function boundAddresses(
  { reservationStore: { reservations } }: CircuitTransport,
  blame: (relay: string) => void,
): void {
  const set = reservations.set.bind(reservations)
  reservations.set = (peer, held) => {
    try {
      held.reservation.addrs = relayAddresses(held.reservation.addrs, peer.toString())
    } catch (error) {
      clearTimeout(held.timeout)
      blame(peer.toString())
      throw error
    }
    return set(peer, held)
  }
}

function createReservations(
  libp2p: ConnectedNode,
  { reservationStore }: CircuitTransport,
): Omit<Reservations, 'isDishonest'> {
  const { transportManager } = libp2p.services.inside
  /** Relays with a libp2p listener. The listener notices a new reservation there without our help. */
  const listening = new Set<string>()

  /** Removes a failed listener, which the library leaves behind. */
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
