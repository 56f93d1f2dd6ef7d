/* A libp2p node that only dials: it listens nowhere, gossips nothing, and joins no DHT. */

import { type Identify, identify } from '@libp2p/identify'
import type { Connection, Stream } from '@libp2p/interface'
import { noise } from '@libp2p/noise'
import { peerIdFromString } from '@libp2p/peer-id'
import { type Ping, ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import type { Multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import { idle, orAborted } from '../lib/wait.ts'
import { dialFirst } from './dial.ts'
import type { Identity } from './identity.ts'
import { takeBackAfterEnd } from './libp2p-fixes/half-closed.ts'
import type { Inside } from './libp2p-fixes/inside.ts'
import { createRelayTransport } from './libp2p-fixes/relay-transport.ts'
import { addressesOf, inOwnOrder } from './multiaddrs.ts'
import { ping as pingOver } from './ping.ts'

const OPEN_MS_MAX = 30_000
const ADDRESSES_DIALED_MAX = 16
const DIAL = { staggerMs: 250, attemptMs: 8_000 }
/** A connection is dead after three pings in a row without an answer: the other end may be gone without a word. */
const PING = { everyMs: 20_000, timeoutMs: 20_000, lostMax: 3 }

/** Dials one peer at a time, and opens streams to it. */
interface DialHost extends Service {
  readonly peerId: string
  /** @throws CodedError `PEER_UNREACHABLE`, `PROTOCOL_UNSUPPORTED` */
  openStream(peer: { peerId: string; addrs: readonly string[] }, protocol: string, signal: AbortSignal): Promise<Stream>
  /** Ends the connection. The next one begins with the address after it: another process of the peer may answer there. */
  leave(): void
}

type DialServices = { identify: Identify; ping: Ping; inside: Pick<Inside['transportManager'], 'dial'> }

/**
 * A peer of several processes is dialed at them in an order of this host, so that workers spread.
 *
 * @param options.version of stoa, which the peer is told
 */
export async function createDialHost(options: { identity: Identity; version: string }): Promise<DialHost> {
  const { identity, version } = options
  const closing = new AbortController()
  /** The address that answered last. */
  let last: Multiaddr | undefined
  const dialed = new WeakMap<Connection, Multiaddr>()
  const libp2p = await createLibp2p<DialServices>({
    start: false,
    privateKey: identity.privateKey,
    nodeInfo: { name: 'stoa', version, userAgent: `stoa-worker/${version}` },
    addresses: { listen: [] },
    transports: [tcp(), createRelayTransport().transport],
    connectionEncrypters: [noise()],
    streamMuxers: [() => takeBackAfterEnd(yamux()())],
    connectionMonitor: { enabled: false },
    services: { identify: identify(), ping: ping(), inside: ({ transportManager }) => transportManager },
  })
  // Not `libp2p.dial`, which tries one address after another and waits for each.
  const dialOne = async (address: Multiaddr, signal: AbortSignal) => {
    const connection = await libp2p.services.inside.dial(address, { signal })
    dialed.set(connection, address)
    return connection
  }
  libp2p.addEventListener('connection:open', ({ detail }) => void watch(detail, closing.signal))

  return {
    name: 'p2p',
    peerId: identity.peerId,
    start: async () => await libp2p.start(),
    async stop() {
      closing.abort(new Error('the host is stopping'))
      await libp2p.stop()
    },
    leave() {
      for (const connection of libp2p.getConnections()) connection.abort(new Error('the stream over it has ended'))
    },
    async openStream({ peerId, addrs }, protocol, outer) {
      const signal = AbortSignal.any([outer, AbortSignal.timeout(OPEN_MS_MAX)])
      try {
        const open = libp2p.getConnections(peerIdFromString(peerId)).find(({ status }) => status === 'open')
        const order = inOwnOrder(addressesOf(peerId, addrs), identity.peerId, last)
        // If none answers from there on, the next attempt begins with the first: a long list is dialed in part only.
        last = undefined
        const addresses = order.slice(0, ADDRESSES_DIALED_MAX)
        const connection = open ?? (await dialFirst(addresses, dialOne, DIAL, signal))
        last = dialed.get(connection)
        if (connection.remotePeer.toString() !== peerId) {
          connection.abort(new Error('another peer answered'))
          throw new Error(`${connection.remotePeer} answered at ${connection.remoteAddr}`)
        }
        const opening = connection.newStream(protocol, { signal, runOnLimitedConnection: true })
        return await orAborted(opening, signal, (late) => late.abort(new Error('too late')))
      } catch (error) {
        if ((error as Error).name === 'UnsupportedProtocolError') {
          const what = `peer ${peerId} does not speak ${protocol}: it runs an older version`
          throw new CodedError('PROTOCOL_UNSUPPORTED', what, { cause: error })
        }
        const at = addrs.length === 0 ? 'no address is known' : `tried ${addrs.length} addresses`
        throw new CodedError('PEER_UNREACHABLE', `peer ${peerId} cannot be reached (${at}): ${reasonOf(error)}`, {
          cause: error,
        })
      }
    },
  }
}

/** Closes a connection whose other end no longer answers. */
async function watch(connection: Connection, signal: AbortSignal): Promise<void> {
  let lost = 0
  while (lost < PING.lostMax) {
    if (!(await idle(PING.everyMs, signal)) || connection.status !== 'open') return
    const limit = AbortSignal.any([signal, AbortSignal.timeout(PING.timeoutMs)])
    const answered = await pingOver(connection, limit).then(
      () => true,
      () => false,
    )
    lost = answered ? 0 : lost + 1
  }
  connection.abort(new Error(`${lost} pings in a row went unanswered`))
}
