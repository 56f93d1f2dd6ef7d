import type { Connection, IdentifyResult, PeerInfo } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { multiaddr } from '@multiformats/multiaddr'
import type { Datastore } from 'interface-datastore'
import { Key } from 'interface-datastore/key'
import { z } from 'zod'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import { DHT_PROTOCOL } from './dht.ts'
import { type Node, REACHED_PREFIX } from './modules.ts'
import { hostIn, networkOf, placeIn, siteOf } from './networks.ts'

const PEERS_MAX = 512
/** Peers kept of one site. Many peer ids at one address belong to one party. */
const PER_SITE_MAX = 32
const PER_NETWORK_MAX = 128
const ADDRESSES_MAX = 4
const KEPT_MS = 30 * 24 * 60 * 60 * 1000

const Entry = z.object({ addresses: z.array(z.string().max(512)).min(1).max(ADDRESSES_MAX), at: z.number() })
type Entry = z.infer<typeof Entry>

type ReachedPeersDeps = { libp2p: Node; datastore: Datastore; clock: Clock; logger: Logger }

/**
 * Market peers that this node has dialed and met, and where (D52). They are separate from the peer store, which holds
 * what anybody says and forgets by age. Peers known only by hearsay never get in, and never push a reached peer out.
 */
export class ReachedPeers {
  readonly #deps: ReachedPeersDeps
  /** The peer reached last is last. */
  readonly #peers = new Map<string, Entry>()
  #loading: Promise<void> | undefined

  constructor(deps: ReachedPeersDeps) {
    this.#deps = deps
    deps.libp2p.addEventListener('peer:identify', ({ detail }) => this.#identified(detail))
  }

  /** Peers of earlier runs and of this run, the last reached first. */
  async list(): Promise<PeerInfo[]> {
    await this.#load()
    return Array.from(this.#peers, ([peerId, { addresses }]) => ({
      id: peerIdFromString(peerId),
      multiaddrs: addresses.map((address) => multiaddr(address)),
    })).toReversed()
  }

  has(peerId: string, place: string): boolean {
    return this.#peers.get(peerId)?.addresses.some((address) => placeIn(multiaddr(address)) === place) ?? false
  }

  #identified({ connection, protocols }: IdentifyResult): void {
    if (connection.direction !== 'outbound' || connection.limits !== undefined) return
    if (protocols.includes(DHT_PROTOCOL)) void this.#note(connection)
  }

  async #note({ remotePeer, remoteAddr }: Connection): Promise<void> {
    await this.#load()
    const peerId = remotePeer.toString()
    const here = remoteAddr.toString()
    const others = this.#peers.get(peerId)?.addresses.filter((address) => address !== here) ?? []
    const entry = { addresses: [here, ...others].slice(0, ADDRESSES_MAX), at: this.#deps.clock.now() }
    this.#peers.delete(peerId)
    this.#peers.set(peerId, entry)
    await this.#write(peerId, entry)
    const host = hostIn(remoteAddr)
    await this.#trim(PER_SITE_MAX, (one) => siteOf(one) === siteOf(host))
    await this.#trim(PER_NETWORK_MAX, (one) => networkOf(one) === networkOf(host))
    await this.#trim(PEERS_MAX, () => true)
  }

  /** Forgets the oldest peers among the hosts that `isMeant` selects. */
  async #trim(most: number, isMeant: (host: string) => boolean): Promise<void> {
    const meant = [...this.#peers].filter(([, { addresses }]) => isMeant(hostIn(multiaddr(addresses[0]!))))
    for (const [peerId] of meant.slice(0, Math.max(0, meant.length - most))) {
      this.#peers.delete(peerId)
      await this.#write(peerId, undefined)
    }
  }

  async #write(peerId: string, entry: Entry | undefined): Promise<void> {
    const key = new Key(`${REACHED_PREFIX}/${peerId}`)
    try {
      if (entry === undefined) await this.#deps.datastore.delete(key)
      else await this.#deps.datastore.put(key, new TextEncoder().encode(JSON.stringify(entry)))
    } catch (error) {
      this.#deps.logger.warn({ peer_id: peerId, err: error }, 'a peer that was reached could not be stored')
    }
  }

  #load(): Promise<void> {
    this.#loading ??= this.#read()
    return this.#loading
  }

  async #read(): Promise<void> {
    const found: [string, Entry][] = []
    try {
      for await (const { key, value } of this.#deps.datastore.query({ prefix: REACHED_PREFIX })) {
        const entry = readEntry(value)
        const isFresh = entry !== undefined && entry.at > this.#deps.clock.now() - KEPT_MS
        if (isFresh) found.push([key.name(), entry])
        else await this.#deps.datastore.delete(key)
      }
    } catch (error) {
      this.#deps.logger.warn({ err: error }, 'the peers reached in earlier runs cannot be read')
    }
    found.sort(([, a], [, b]) => a.at - b.at)
    for (const [peerId, entry] of found.slice(-PEERS_MAX)) this.#peers.set(peerId, entry)
  }
}

function readEntry(value: Uint8Array): Entry | undefined {
  try {
    return Entry.parse(JSON.parse(new TextDecoder().decode(value)))
  } catch {
    return undefined
  }
}
