/*
 * Upstream: not reported. Seen in @libp2p/kad-dht 16.4.5.
 * Goes when: the library limits messages for each peer and what an answer may name, and asks before it uses named peers.
 */

import { randomInt } from 'node:crypto'
import type { Connection, PeerId, PeerInfo, PeerStore, Stream } from '@libp2p/interface'
import type { KadDHT, KadDHTComponents } from '@libp2p/kad-dht'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import type { DialBudget } from '../dial-budget.ts'
import { hostIn, siteOf } from '../networks.ts'
import { ADDRESSES_PER_PEER_MAX } from '../reach/address-bound.ts'

/** DHT messages answered for one peer, and for all peers at one address: a burst and a rate in messages a second. */
const PER_PEER = { burst: 64, perSecond: 8, keysMax: 4096 }
const PER_SITE = { burst: 1024, perSecond: 128, keysMax: 4096 }
/** Bytes that count as one message. */
const MESSAGE_BYTES = 4 * 1024
/** The largest answer read. An answer names 20 closer peers, and providers. */
const ANSWER_BYTES_MAX = 512 * 1024
const NAMED_MAX = 20
const PROVIDERS_TOLD_MAX = 40

type PbPeer = { id: Uint8Array; multiaddrs: Uint8Array[] }
type Message = { closer: PbPeer[]; providers: PbPeer[] }
type Event = { name: string; from?: PeerId; closer?: PeerInfo[]; providers?: PeerInfo[] }
type Send = (to: PeerId, message: object, options: object) => AsyncGenerator<Event>

type ProvidersHandler = { peerStore: PeerStore; providers: { getProviders(key: unknown): Promise<PeerId[]> } }

/** The parts of the library's DHT used here. Its types do not declare all of them. */
type Insides = {
  network: {
    sendRequest: Send
    _writeReadMessage(stream: Stream, message: object, options: object): Promise<Message>
    safeDispatchEvent(name: string, event: object): boolean
  }
  rpc: {
    handlers: Record<string, object>
    handleMessage(peer: PeerId, message: Message): Promise<unknown>
    onIncomingStream(stream: Stream, connection: Connection): Promise<void>
  }
}

/**
 * Bounds what others can do through a DHT (D52). It limits the messages answered for a peer and for an address, and
 * what an answer may name. It also ignores peers that keep naming places where nobody answers.
 */
export function guardDht<T extends KadDHT>(dht: T, components: KadDHTComponents, budget: DialBudget): T {
  const insides = dht as unknown as Insides
  limitAsked(insides, components)
  limitAnswers(insides, components, budget)
  answerProviders(insides)
  return dht
}

function limitAsked({ rpc }: Insides, { connectionManager }: KadDHTComponents): void {
  const peers = new TokenBuckets(PER_PEER)
  const sites = new TokenBuckets(PER_SITE)

  function charge(peer: PeerId, count: number, connection?: Connection): void {
    const from = connection ?? connectionManager.getConnections(peer)[0]
    const site = from === undefined ? '' : siteOf(hostIn(from.remoteAddr))
    const now = performance.now()
    if (!peers.take(peer.toString(), count, now) || !sites.take(site, count, now)) {
      throw new Error('too many messages of the DHT from this peer or address')
    }
  }

  const { handleMessage, onIncomingStream } = rpc
  rpc.handleMessage = async (peer, message) => {
    charge(peer, 1)
    return await handleMessage.call(rpc, peer, { ...message, closer: [], providers: cut(message.providers, NAMED_MAX) })
  }
  rpc.onIncomingStream = async (stream, connection) => {
    limitBytes(stream, (bytes) => charge(connection.remotePeer, bytes / MESSAGE_BYTES, connection))
    await onIncomingStream.call(rpc, stream, connection)
  }
}

/** Passes the size of each arriving piece to `weigh` before anybody reads the piece. */
function limitBytes(stream: Stream, weigh: (bytes: number) => void): void {
  stream.addEventListener('message', ({ data }) => {
    try {
      weigh(data.byteLength)
    } catch (error) {
      stream.abort(error as Error)
    }
  })
}

function limitAnswers({ network }: Insides, { connectionManager }: KadDHTComponents, budget: DialBudget): void {
  const tell = network.safeDispatchEvent.bind(network)
  // The library publishes each peer of an answer before the answer is checked. Suppress that here; the peers are
  // published below.
  network.safeDispatchEvent = (name, event) => name === 'peer' || tell(name, event)

  const { _writeReadMessage: exchange, sendRequest } = network
  network._writeReadMessage = async (stream, message, options) => {
    let left = ANSWER_BYTES_MAX
    limitBytes(stream, (bytes) => {
      left -= bytes
      if (left < 0) throw new Error('the answer is too long')
    })
    const answer = await exchange.call(network, stream, message, options)
    return { ...answer, closer: cut(answer.closer, NAMED_MAX), providers: cut(answer.providers, PROVIDERS_TOLD_MAX) }
  }
  network.sendRequest = async function* (to, message, options) {
    for await (const event of sendRequest.call(network, to, message, options)) {
      if (event.name !== 'PEER_RESPONSE') yield event
      else {
        const from = connectionManager.getConnections(to)[0]?.remoteAddr
        const source = { peerId: to.toString(), host: from === undefined ? '' : hostIn(from) }
        const closer = budget.admit(source, event.closer ?? [])
        const providers = budget.admit(source, event.providers ?? [])
        for (const detail of [...closer, ...providers]) tell('peer', { detail })
        yield { ...event, closer, providers }
      }
    }
  }
}

/**
 * Limits the providers in an answer. The library names all providers, and ends the answer early if the peer store has
 * forgotten one of them.
 */
function answerProviders({ rpc: { handlers } }: Insides): void {
  const handler = handlers.GET_PROVIDERS as ProvidersHandler
  const { peerStore, providers } = handler
  const get: PeerStore['get'] = async (id, options) => {
    try {
      return await peerStore.get(id, options)
    } catch (error) {
      if ((error as Error).name !== 'NotFoundError') throw error
      return { id, addresses: [], protocols: [], metadata: new Map(), tags: new Map() }
    }
  }
  handler.peerStore = Object.create(peerStore, { get: { value: get } }) as PeerStore
  handler.providers = {
    getProviders: async (key) => {
      const all = await providers.getProviders(key)
      // Start at a random provider, so that a repeated question gets others.
      const from = randomInt(Math.max(1, all.length))
      return [...all.slice(from), ...all.slice(0, from)].slice(0, PROVIDERS_TOLD_MAX)
    },
  }
}

function cut(peers: readonly PbPeer[] | undefined, count: number): PbPeer[] {
  return (peers ?? []).slice(0, count).map((peer) => ({
    ...peer,
    multiaddrs: peer.multiaddrs.slice(0, ADDRESSES_PER_PEER_MAX),
  }))
}
