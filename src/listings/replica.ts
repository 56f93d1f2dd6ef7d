import type { Clock } from '../lib/clock.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { Pace } from '../lib/pace.ts'
import type { Host } from '../p2p/host.ts'
import type { Identity } from '../p2p/identity.ts'
import { SignaturePool } from '../p2p/signature-pool.ts'
import { SYNC_PROTOCOL } from '../protocols/sync/sync.ts'
import type { ListingRecord } from '../schema/listing.ts'
import type { ListingVersions } from '../store/listing-versions.ts'
import type { ListingStore } from '../store/listings.ts'
import { CatchUp, type CatchUpOptions } from './catch-up.ts'
import { LISTINGS_TOPIC, ListingGossip, type ListingGossipOptions } from './gossip.ts'
import { type OwnListing, OwnListings } from './own-listings.ts'
import { type ListingListener, ReplicaState } from './replica-state.ts'
import { SyncSessions } from './sync-sessions.ts'

export type { OwnListing } from './own-listings.ts'

/** This node's copy of the market: every signed listing it has seen. It is kept equal with the copies of its peers. */
export interface Replica extends Service {
  /**
   * Puts an agent on the market, or changes it. The listing is signed, stored durably and then gossiped. It is
   * refreshed before it expires and when the node's addresses change, until `delist` or the end of the process.
   *
   * @throws CodedError `LISTING_INVALID`, `LISTINGS_FULL`, or the error of the store. In each case nothing was
   * published.
   */
  publish(own: OwnListing): Promise<ListingRecord>
  /** Publishes nothing. @throws CodedError `LISTING_INVALID` if no other node would accept this listing */
  check(own: OwnListing): Promise<void>
  /** Takes a listing of ours off the market. Does nothing if it is not on the market. */
  delist(id: string): Promise<void>
  /** Leaves a listing of ours to the other processes of this seller, which sign it without this one. */
  leave(id: string): Promise<void>
  /** True if this process signs this listing. It may be on the market by another process of this seller alone. */
  signs(id: string): boolean
  /** A listing that is on the market: active and not expired. */
  get(id: string): ListingRecord | undefined
  /** All listings on the market, read from disk at 20 µs each. */
  all(): ListingRecord[]
  own(): ListingRecord[]
  count(): number
  /** Ids of listings on the market that start with `beginning`. */
  idsBeginning(beginning: string, max: number): string[]
  /**
   * Reports each merged version, tombstones (`state: 'delisted'`) included, and whether the listing was on the market
   * before. Expiry is not reported.
   */
  onChange(listener: ListingListener): () => void
}

/** The part of the p2p host that the replica uses. */
export type ReplicaHost = Pick<
  Host,
  'peerId' | 'peers' | 'handle' | 'openStream' | 'subscribe' | 'publish' | 'onPeerConnect' | 'onAddressesChange'
> &
  Partial<Pick<Host, 'siteOf'>> & {
    /** Where buyers reach an agent of this node. */
    addresses(agentId: string): string[]
  }

type ReplicaOptions = {
  listingsMax?: number
  bytesMax?: number
  /** How often expired listings and due refreshes are handled. */
  tickMs?: number
  /** How long listings of others may wait to be written together. */
  writeMs?: number
  /**
   * Wait after an address change, or after a peer sends one of our own listings, so that a burst causes only one
   * refresh.
   */
  addressesMs?: number
  gossip?: ListingGossipOptions
  catchUp?: CatchUpOptions
  sessions?: { stepTimeoutMs?: number }
}

type ReplicaDeps = {
  host: ReplicaHost
  identity: Identity
  store: ListingStore
  clock: Clock
  logger: Logger
  /** Limits how much of the event loop the work for other nodes takes. */
  pace?: Pace
  /** True if this node has called an agent. No flood pushes such a listing out. */
  hasCalled?: ((agentId: string) => boolean) | undefined
  /** Called once when another running node signs listings with the key of this node. */
  copied?: ((agentName: string) => void) | undefined
  /** Set if other processes of this seller sign listings too, on the same ledger. */
  versions?: ListingVersions | undefined
}

/** Listings held. Each takes about 1 kB of memory. */
const LISTINGS_MAX = 250_000
/** Bytes of all envelopes on disk. */
const BYTES_MAX = 256 * 1024 * 1024

/**
 * Creates the replica from what the store holds. `start` connects it with the replicas of the peers.
 *
 * set.ts defines how versions merge. This file only connects the ways that versions travel. Gossip brings changes, and
 * sessions with one peer at a time bring what gossip lost.
 */
export function createReplica(options: ReplicaOptions, deps: ReplicaDeps): Replica {
  const { listingsMax = LISTINGS_MAX, bytesMax = BYTES_MAX } = options
  const { tickMs = 15_000, writeMs = 500, addressesMs = 3000 } = options
  const { host, identity, store, clock, logger, pace = new Pace() } = deps
  const ownSellerId = identity.peerId

  const signatures = new SignaturePool()
  const state = new ReplicaState(
    { listingsMax, bytesMax, ownSellerId, writeMs },
    { store, signatures, clock, logger, pace, hasCalled: deps.hasCalled },
  )
  const gossip = new ListingGossip(options.gossip ?? {}, { host, state, signatures, clock, logger, pace })
  const own = new OwnListings({
    identity,
    host,
    state,
    gossip,
    clock,
    logger,
    copied: deps.copied,
    versions: deps.versions,
  })
  const sessions = new SyncSessions(
    // A peer of our size may hold as much as we do, and its own listings in addition.
    { ...options.sessions, ownId: host.peerId, listingsMax: 2 * listingsMax, bytesMax: 2 * bytesMax },
    { host, state, gossip, clock, logger },
  )
  const catchUp = new CatchUp(options.catchUp ?? {}, { host, sessions, logger })

  const timers: { tick?: NodeJS.Timeout; refresh?: NodeJS.Timeout } = {}
  let leave: (() => void)[] = []
  let running = false

  async function tick(): Promise<void> {
    state.purge()
    await own.refreshDue()
    if (running) timers.tick = setTimeout(() => void tick(), tickMs).unref()
  }

  function met(peerId: string): void {
    catchUp.attend(peerId)
    gossip.noteConnected()
  }

  const noteOwn: ListingListener = (record, _wasShown, isHeard) => {
    if (isHeard !== true || record.seller_id !== ownSellerId) return
    own.heard(record)
    refreshSoon()
  }

  function refreshSoon(): void {
    clearTimeout(timers.refresh)
    if (running) timers.refresh = setTimeout(() => void own.refreshDue(), addressesMs).unref()
  }

  return {
    name: 'replica',

    async start() {
      running = true
      await host.handle(SYNC_PROTOCOL, (stream, peerId) => sessions.serve(stream, peerId))
      host.subscribe(LISTINGS_TOPIC, async (message, from) => (running ? gossip.receive(message, from) : 'ignore'))
      leave = [host.onPeerConnect(met), host.onAddressesChange(refreshSoon), state.onChange(noteOwn)]
      catchUp.start()
      await tick()
    },

    async stop() {
      running = false
      for (const end of leave.splice(0)) end()
      clearTimeout(timers.tick)
      clearTimeout(timers.refresh)
      sessions.stop()
      await catchUp.stop()
      await own.settle()
      await gossip.stop(() => host.peers().length > 0)
      await state.close()
    },

    publish: (listing) => own.publish(listing),
    check: (listing) => own.check(listing),
    delist: (id) => own.delist(id),
    leave: (id) => own.leave(id),
    signs: (id) => own.signs(id),
    get: (id) => state.shown(id),
    all: () => state.allShown(),
    own: () => state.set.entriesOf(ownSellerId).flatMap(({ record }) => state.shown(record.id) ?? []),
    count: () => state.count(),
    idsBeginning: (beginning, max) => [
      ...state.set
        .idsBeginning(beginning)
        .filter((id) => state.shown(id) !== undefined)
        .take(max),
    ],
    onChange: (listener) => state.onChange(listener),
  }
}
