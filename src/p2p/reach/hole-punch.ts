import type { Connection, IdentifyResult, Stream, Transport } from '@libp2p/interface'
import { isPrivate, lpStream } from '@libp2p/utils'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { BoundedMap } from '../../lib/bounded-map.ts'
import { reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import { idle, orAborted } from '../../lib/wait.ts'
import type { Connector } from '../connector.ts'
import type { PortReuse } from '../libp2p-fixes/port-reuse.ts'
import type { Node } from '../modules.ts'
import { addressesOf, isRelayed, transportOf } from '../multiaddrs.ts'
import type { PeerBook } from '../peer-book.ts'
import { decodeHolePunch, encodeHolePunch, HOLE_PUNCH_BYTES_MAX, type HolePunchMessage } from './hole-punch-message.ts'
import { publicAddresses } from './reachability.ts'

const HOLE_PUNCH_PROTOCOL = '/libp2p/dcutr'
/** Wait before replacing a relayed connection. A short probe is over by then and needs no direct connection. */
const FIRST_AFTER_MS = 500
const TRIES_MAX = 3
const TRY_MS_MAX = 5000
const OBSERVED_MAX = 8
/** Places dialed from a peer's message. More would let a peer make this node dial many hosts. */
const DIALS_MAX = 4
/** Wait between attempts with one peer. Most routers that block one attempt also block the next. */
const AGAIN_AFTER_MS = 10 * 60_000
const FAILED_KEPT_MAX = 500
const SWEEP_EVERY_MS = 5000

type HolePunchDeps = {
  libp2p: Node
  logger: Logger
  book: PeerBook
  connector: Connector
  tcp: Transport
  /**
   * Undefined if this platform cannot dial from the listening port. Then only peers that can be dialed get a direct
   * connection.
   */
  reuse: PortReuse | undefined
}

/**
 * Replaces connections over a relay by direct connections (DCUtR). The called side begins. If the caller can be dialed,
 * the called side dials it. Otherwise both sides dial each other at the same instant, from the ports they listen on.
 * Each router then takes the packets of the other side for answers. If that fails, calls stay on the relay.
 *
 * libp2p's own service cannot do this: it dials from any port, and both of its ends act as the client.
 */
export class HolePunch {
  readonly #deps: HolePunchDeps
  /** The address of this node's listening port as relays and others see it, by observer. */
  readonly #observed = new BoundedMap<string, { host: string; port?: string | undefined }>(OBSERVED_MAX)
  readonly #busy = new Set<string>()
  readonly #failedAt = new BoundedMap<string, number>(FAILED_KEPT_MAX)

  constructor(deps: HolePunchDeps) {
    this.#deps = deps
    deps.libp2p.addEventListener('peer:identify', ({ detail }) => this.#noteObserved(detail))
  }

  async run(signal: AbortSignal): Promise<void> {
    const { libp2p, logger } = this.#deps
    const options = { runOnLimitedConnection: true, maxInboundStreams: 1, maxOutboundStreams: 1 }
    const answer = (stream: Stream, connection: Connection) => void this.#answer(stream, connection, signal)
    await libp2p.handle(HOLE_PUNCH_PROTOCOL, answer, options)
    const onOpen = ({ detail: connection }: CustomEvent<Connection>) => {
      if (connection.direction !== 'inbound' || connection.limits === undefined) return
      this.#replace(connection, signal).catch((error: unknown) => {
        const peerId = connection.remotePeer.toString()
        logger.debug({ peer_id: peerId, err: error }, 'no direct connection came about; the relay stays')
      })
    }
    libp2p.addEventListener('connection:open', onOpen)
    while (await idle(SWEEP_EVERY_MS, signal)) this.#sweep()
    libp2p.removeEventListener('connection:open', onOpen)
  }

  /** The called side. */
  async #replace(relayed: Connection, signal: AbortSignal): Promise<void> {
    const peerId = relayed.remotePeer.toString()
    const failedAt = this.#failedAt.get(peerId) ?? Number.NEGATIVE_INFINITY
    if (this.#busy.has(peerId) || performance.now() - failedAt < AGAIN_AFTER_MS) return
    this.#busy.add(peerId)
    try {
      if (!(await idle(FIRST_AFTER_MS, signal)) || (await this.#dialPublic(relayed, signal))) return
      for (let tried = 1; this.#deps.reuse !== undefined; tried++) {
        if (relayed.status !== 'open' || this.#deps.book.connected(peerId)) return
        try {
          return await this.#begin(relayed, AbortSignal.any([signal, AbortSignal.timeout(TRY_MS_MAX)]))
        } catch (error) {
          if (tried < TRIES_MAX && !signal.aborted) continue
          this.#failedAt.set(peerId, performance.now())
          throw error
        }
      }
    } finally {
      this.#busy.delete(peerId)
    }
  }

  async #dialPublic({ remotePeer }: Connection, signal: AbortSignal): Promise<boolean> {
    const { libp2p, connector, logger } = this.#deps
    const { addresses } = await libp2p.peerStore.get(remotePeer)
    if (publicAddresses(addresses.map(({ multiaddr }) => multiaddr)).length === 0) return false
    const peer = { peerId: remotePeer.toString(), addrs: [] }
    const limit = AbortSignal.any([signal, AbortSignal.timeout(TRY_MS_MAX)])
    const dialed = await connector.connect(peer, limit).catch(() => undefined)
    if (dialed !== undefined)
      logger.info({ peer_id: peer.peerId }, 'a caller was dialed back; its relay is no longer needed')
    return dialed !== undefined
  }

  /** connect → ← connect · sync → · half a round trip later: dial */
  async #begin(relayed: Connection, signal: AbortSignal): Promise<void> {
    const opening = relayed.newStream(HOLE_PUNCH_PROTOCOL, { signal, runOnLimitedConnection: true })
    const stream = await orAborted(opening, signal, (late) => late.abort(new Error('too late')))
    try {
      const wire = framed(stream, signal)
      const saidAt = performance.now()
      await wire.say({ type: 'connect', addresses: this.#own() })
      const { type, addresses } = await wire.hear()
      if (type !== 'connect') throw new Error('the caller did not say where it is')
      const roundTripMs = performance.now() - saidAt
      await wire.say({ type: 'sync', addresses: [] })
      await idle(roundTripMs / 2, signal)
      await this.#dial(relayed, addresses, false, signal)
    } finally {
      stream.close({ signal }).catch((error: Error) => stream.abort(error))
    }
  }

  /** The calling side. ← connect · connect → · ← sync: dial */
  async #answer(stream: Stream, relayed: Connection, stopping: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(TRY_MS_MAX)])
    try {
      // Answer only over a connection that this node opened. Otherwise any peer could make this node dial any address,
      // any number of times.
      const isOurs = relayed.direction === 'outbound' && relayed.limits !== undefined
      if (!isOurs || this.#deps.reuse === undefined) throw new Error('there is nothing to punch')
      const wire = framed(stream, signal)
      const { type, addresses } = await wire.hear()
      if (type !== 'connect') throw new Error('expected connect')
      await wire.say({ type: 'connect', addresses: this.#own() })
      if ((await wire.hear()).type !== 'sync') throw new Error('expected sync')
      await this.#dial(relayed, addresses, true, signal)
      await stream.close({ signal })
    } catch (error) {
      const fields = { peer_id: relayed.remotePeer.toString(), err: error }
      this.#deps.logger.debug(fields, 'a caller’s wish for a direct connection came to nothing')
      stream.abort(error as Error)
    }
  }

  async #dial(
    relayed: Connection,
    places: readonly Multiaddr[],
    initiator: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const { tcp, libp2p, logger } = this.#deps
    const peerId = relayed.remotePeer.toString()
    const usable = publicAddresses(addressesOf(peerId, places)).filter((address) => transportOf(address) === 'tcp')
    if (usable.length === 0) throw new Error('the peer named no address to dial')
    const { upgrader } = libp2p.services.inside
    const acting: typeof upgrader = Object.create(upgrader, {
      upgradeOutbound: {
        value: (connection: { direction: string }, options: object) => {
          // Both ends dial, so one must act as the server at all layers, including the multiplexer.
          if (!initiator) connection.direction = 'inbound'
          return upgrader.upgradeOutbound(connection, options)
        },
      },
    })
    const attempts = usable.slice(0, DIALS_MAX).map((address) => {
      // Each attempt needs its own controller. TCP keeps the signal of its dial, and the winner must survive when the
      // others are aborted.
      const controller = new AbortController()
      const options = { signal: AbortSignal.any([signal, controller.signal]), initiator, upgrader: acting }
      return { controller, dial: tcp.dial(address, options as unknown as Parameters<Transport['dial']>[1]) }
    })
    const direct = await Promise.any(attempts.map(({ dial }) => dial)).catch((error: AggregateError) => {
      throw new Error(error.errors.map((one, at) => `${usable[at]}: ${reasonOf(one)}`).join('; '))
    })
    for (const { controller, dial } of attempts) {
      const isWinner = await Promise.race([dial.catch(() => undefined), undefined])
      if (isWinner !== direct) controller.abort(new Error('another address answered first'))
    }
    if (direct.remotePeer.toString() !== peerId) throw new Error('another peer answered')
    const fields = { peer_id: peerId, address: direct.remoteAddr.toString() }
    logger.info(fields, 'a direct connection works; the relay is no longer needed')
  }

  /**
   * Addresses at which the peer may reach this node, the likeliest first, because only a few are tried:
   * - public addresses
   * - each host that peers saw, with the listening port, because most routers keep the port
   * - each host and port that peers saw when this node dialed them from the listening port
   */
  #own(): Multiaddr[] {
    const seen = [...this.#observed.values()].toReversed()
    const kept = seen.map(({ host }) => `/ip4/${host}/tcp/${this.#deps.reuse?.port}`)
    const mapped = seen.flatMap(({ host, port }) => (port === undefined ? [] : `/ip4/${host}/tcp/${port}`))
    const open = publicAddresses(this.#deps.libp2p.getMultiaddrs()).filter((address) => transportOf(address) === 'tcp')
    const texts = open.map((address) => address.toString().replace(/\/p2p\/.*/, ''))
    return [...new Set([...texts, ...kept, ...mapped])].slice(0, DIALS_MAX).map((text) => multiaddr(text))
  }

  #noteObserved({ peerId, observedAddr, connection }: IdentifyResult): void {
    if (connection.direction !== 'outbound' || isRelayed(connection.remoteAddr)) return
    if (observedAddr === undefined || isPrivate(observedAddr) || transportOf(observedAddr) !== 'tcp') return
    const [seen, seenPort] = observedAddr.getComponents()
    const [host, port] = connection.remoteAddr.getComponents()
    if (seen?.name !== 'ip4' || seen.value === undefined) return
    const isFromPort = this.#deps.reuse?.dialed.has(`${host?.value}:${port?.value}`) === true
    const own = { host: seen.value, ...(isFromPort && { port: seenPort?.value }) }
    this.#observed.set(peerId.toString(), own)
  }

  /** Closes relayed connections that a direct connection has replaced, once no stream uses them. */
  #sweep(): void {
    for (const connection of this.#deps.libp2p.getConnections()) {
      const isReplaced = connection.limits !== undefined && this.#deps.book.connected(connection.remotePeer.toString())
      if (isReplaced && connection.streams.length === 0) connection.close().catch(() => {})
    }
  }
}

function framed(stream: Stream, signal: AbortSignal) {
  const wire = lpStream(stream, { maxDataLength: HOLE_PUNCH_BYTES_MAX })
  return {
    say: (message: HolePunchMessage) => wire.write(encodeHolePunch(message), { signal }),
    hear: async () => decodeHolePunch((await wire.read({ signal })).subarray()),
  }
}
