import { randomInt } from 'node:crypto'
import { type Clock, isoTime, type UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { createLane } from '../lib/lane.ts'
import type { Logger } from '../lib/logger.ts'
import type { Identity } from '../p2p/identity.ts'
import { LISTING_SKEW_MS, LISTING_TTL_MS, type ListingRecord } from '../schema/listing.ts'
import type { ListingVersions } from '../store/listing-versions.ts'
import { AddressChanges } from './address-changes.ts'
import type { ListingGossip } from './gossip.ts'
import type { ReplicaState } from './replica-state.ts'
import { compareEntries, isShown, LISTINGS_PER_SELLER_MAX } from './set.ts'
import { sealListing } from './signed-listing.ts'

/** What a seller says about an agent. The replica fills in the rest of the listing. */
export type OwnListing = Omit<
  ListingRecord,
  'v' | 'seller_id' | 'state' | 'version' | 'updated_at' | 'expires_at' | 'addrs'
>

type OwnListingsDeps = {
  identity: Identity
  /** Where buyers reach an agent of this node. */
  host: { addresses(agentId: string): string[] }
  state: Pick<ReplicaState, 'set' | 'record' | 'keepOwn' | 'lastOwnVersion'>
  gossip: Pick<ListingGossip, 'announce'>
  clock: Clock
  logger: Logger
  /** Called once when another running node signs listings with our key. */
  copied?: ((agentName: string) => void) | undefined
  /** Set if other processes of this seller sign listings too, on the same ledger. */
  versions?: ListingVersions | undefined
}

type ListingTimes = Pick<ListingRecord, 'version' | 'updated_at' | 'expires_at'>

type OwnAgent = {
  own: OwnListing
  refreshAt: UnixMs
  /** `heard`: a peer sent a later version under our key. `answered`: we then signed a later version of our own. */
  overtaken?: 'heard' | 'answered'
}

/** The most addresses, and characters of each, that the schema of a listing allows. */
const ADDRESSES_MAX = 16
const ADDRESS_LENGTH_MAX = 512

/**
 * Signs this node's listings, refreshes them and takes them off the market.
 *
 * The version is a clock that never goes back: max(last + 1, now). All times of a listing derive from its version, so
 * that a later version always lives longer. Changes run one at a time. Processes that share a ledger take their versions
 * from it, so each knows what another process of the seller signed from what a copy of the node signed (T33).
 */
export class OwnListings {
  readonly #deps: OwnListingsDeps
  readonly #hosted = new Map<string, OwnAgent>()
  #lastVersion: number
  #isCopied = false
  readonly #addressChanges = new AddressChanges()
  readonly #inTurn = createLane()

  constructor(deps: OwnListingsDeps) {
    this.#deps = deps
    this.#lastVersion = deps.state.lastOwnVersion()
  }

  /** See {@link Replica} `publish`. */
  publish(own: OwnListing): Promise<ListingRecord> {
    return this.#inTurn(async () => {
      if (this.#isCopied) throw new CodedError('LEDGER_COPIED', 'another node lists agents under the key of this one')
      await this.#makeRoomFor(own.id)
      return this.#sign(own)
    })
  }

  /** See {@link Replica} `check`. */
  async check(own: OwnListing): Promise<void> {
    const now = this.#deps.clock.now()
    await sealListing(this.#record(own, timesOf(now)), this.#deps.identity)
  }

  /** Signs a tombstone. Does nothing if the listing is not ours or not on the market. */
  delist(id: string): Promise<void> {
    return this.#inTurn(async () => {
      // If another node uses our key, the listing may be the one of that node, which continues to sell.
      if (!this.#isCopied) await this.#bury(id)
    })
  }

  /** True if this process signs the listing, and renews it. */
  signs(id: string): boolean {
    return this.#hosted.has(id)
  }

  /** Signs a listing no more. It stays on the market. */
  leave(id: string): Promise<void> {
    return this.#inTurn(async () => void this.#hosted.delete(id))
  }

  /** Signs listings again that are due, or whose addresses are no longer those of the node. */
  refreshDue(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#isCopied) return
      for (const [id, { own, refreshAt }] of this.#hosted) {
        if (this.#deps.clock.now() < refreshAt && !this.#hasMoved(id)) continue
        try {
          await this.#sign(own)
        } catch (error) {
          this.#deps.logger.warn({ agent_name: own.name, err: error }, 'a listing could not be refreshed')
        }
      }
    })
  }

  /**
   * Records a listing that a peer sent, signed with our key and later than ours. It comes from an earlier life of this
   * node (a lost database or a restored backup) or from a second node with our key. This node answers with a higher
   * version of its own listing. An earlier life stays silent after that. If a still later version arrives, a second
   * node is running, and both leave the market (T33). Only the holder of the key can cause this: the signature was
   * checked, and older versions never get here.
   */
  heard(record: ListingRecord): void {
    this.#lastVersion = Math.max(this.#lastVersion, record.version)
    const { versions, logger } = this.#deps
    if (versions === undefined) {
      this.#overtake(record)
      return
    }
    const judge = async () => {
      if (await versions.isTaken(record.id, record.version)) this.#follow(record)
      else this.#overtake(record)
    }
    this.#inTurn(judge).catch((error: unknown) => {
      logger.warn({ agent_name: record.name, err: error }, 'the ledger could not say who signed a listing of ours')
    })
  }

  /** Another process of this seller signed the listing. Its refresh is due later, unless it took the agent off. */
  #follow({ id, version, state }: ListingRecord): void {
    const hosted = this.#hosted.get(id)
    if (hosted === undefined) return
    // An agent is on the market while any process sells it.
    hosted.refreshAt = state === 'delisted' ? this.#deps.clock.now() : this.#refreshAt(version)
    // It answered a listing that no process of this seller signed. What comes later still is of a running copy.
    if (hosted.overtaken === 'heard') hosted.overtaken = 'answered'
  }

  #overtake(record: ListingRecord): void {
    const hosted = this.#hosted.get(record.id)
    if (hosted === undefined || this.#isCopied) return
    if (hosted.overtaken === 'answered') {
      this.#isCopied = true
      this.#leaveMarket()
      this.#deps.copied?.(record.name)
      return
    }
    const warning = 'a peer holds a later listing of ours: does another node use our key?'
    this.#deps.logger.warn({ agent_name: record.name }, warning)
    hosted.overtaken = 'heard'
    hosted.refreshAt = this.#deps.clock.now()
  }

  /** Waits for running changes. */
  async settle(): Promise<void> {
    await this.#inTurn(async () => {})
  }

  async #sign(own: OwnListing): Promise<ListingRecord> {
    const { state } = this.#deps
    const times = await this.#times(own.id)
    const record = this.#record(own, times)
    await this.#commit(record)
    this.#addressChanges.note(own.id, record.addrs, this.#deps.clock.now(), true)
    // A peer may have brought a still later version, which then stands instead of ours. Sign again at once.
    const stands = state.set.get(own.id)?.record.version === times.version
    const overtaken = this.#hosted.get(own.id)?.overtaken
    this.#hosted.set(own.id, {
      own,
      refreshAt: stands ? this.#refreshAt(times.version) : times.version,
      ...(overtaken !== undefined && { overtaken: stands ? 'answered' : overtaken }),
    })
    return record
  }

  #record(own: OwnListing, times: ListingTimes): ListingRecord {
    const { identity, host } = this.#deps
    const addrs = listedAddresses(host.addresses(own.id), identity.peerId)
    return { ...own, v: 1, seller_id: identity.peerId, state: 'active', addrs, ...times }
  }

  async #bury(id: string): Promise<void> {
    const { state, identity, clock } = this.#deps
    const held = state.record(id)
    this.#hosted.delete(id)
    if (held === undefined || held.seller_id !== identity.peerId || !isShown(held, clock.now())) return
    // Leave out the fields that a tombstone does not need. It is kept and sent as long as a listing.
    const { model: _model, token_id: _tokenId, timeout_seconds: _timeout, ...shorter } = held
    const { seller_name: _sellerName, channel: _channel, ...rest } = shorter
    const times = await this.#times(id)
    await this.#commit({ ...rest, state: 'delisted', description: 'delisted', tags: [], addrs: [], ...times })
  }

  /**
   * Signs tombstones for all our listings, as the last thing this node publishes. Nobody then buys here, and the other
   * node learns of the conflict.
   */
  #leaveMarket(): void {
    for (const id of this.#hosted.keys()) {
      this.#inTurn(() => this.#bury(id)).catch((error: unknown) => {
        this.#deps.logger.warn({ agent_id: id, err: error }, 'a listing could not be taken off the market')
      })
    }
  }

  /** Signs, stores durably, merges and gossips a version. @throws an error if it could not be stored */
  async #commit(record: ListingRecord): Promise<void> {
    const { identity, state, gossip } = this.#deps
    const { entry, envelope } = await sealListing(record, identity)
    await state.keepOwn(entry, envelope)
    gossip.announce(record.id, envelope)
  }

  async #times(id: string): Promise<ListingTimes> {
    const now = this.#deps.clock.now()
    const next = Math.max(this.#lastVersion + 1, now)
    const version = (await this.#deps.versions?.take(id, next)) ?? next
    if (version > now + LISTING_SKEW_MS) {
      const from = isoTime(version - LISTING_SKEW_MS)
      const message = `the clock was set back: other nodes take our listings only from ${from} on; check the system time`
      this.#deps.logger.warn({}, message)
    }
    this.#lastVersion = Math.max(this.#lastVersion, version)
    return timesOf(version)
  }

  /** About half of the listing's life from now. A version in the future is refreshed once other nodes accept it. */
  #refreshAt(version: number): UnixMs {
    if (version > this.#deps.clock.now() + LISTING_SKEW_MS) return version - LISTING_SKEW_MS / 2
    return version + (LISTING_TTL_MS * randomInt(45, 56)) / 100
  }

  /** True if the listing is due because its addresses are no longer those of the node. */
  #hasMoved(id: string): boolean {
    const listed = new Set(this.#deps.state.record(id)?.addrs)
    const current = listedAddresses(this.#deps.host.addresses(id), this.#deps.identity.peerId)
    const now = this.#deps.clock.now()
    const differs = listed.size !== current.length || current.some((address) => !listed.has(address))
    if (!differs) this.#addressChanges.note(id, current, now)
    return differs && this.#addressChanges.isDue(id, current, now)
  }

  /**
   * Makes room for a new agent. The replicas keep only the newest versions of a seller, so a new agent pushes out the
   * oldest. The oldest must be a tombstone, so active listings older than it are signed again. A tombstone is safe to
   * drop then, because 64 newer versions stand above every version it shadows.
   */
  async #makeRoomFor(id: string): Promise<void> {
    const { state, identity, clock } = this.#deps
    const entries = state.set.entriesOf(identity.peerId).toSorted(compareEntries)
    if (state.set.get(id) !== undefined || entries.length < LISTINGS_PER_SELLER_MAX) return
    const firstTombstone = entries.findIndex(({ record }) => !isShown(record, clock.now()))
    if (firstTombstone === -1) {
      const message = `this node lists ${LISTINGS_PER_SELLER_MAX} agents, which is the most; remove one first`
      throw new CodedError('LISTINGS_FULL', message)
    }
    for (const { record: head } of entries.slice(0, firstTombstone)) {
      const record = state.record(head.id)
      if (record !== undefined) await this.#commit({ ...record, ...(await this.#times(record.id)) })
    }
  }
}

/** All times of a listing derive from its version. */
function timesOf(version: number): ListingTimes {
  return { version, updated_at: version, expires_at: version + LISTING_TTL_MS }
}

/** Addresses for a listing in the host's order, the best first, as many as fit. */
function listedAddresses(addresses: readonly string[], peerId: string): string[] {
  const own = addresses.filter((address) => address.endsWith(`/p2p/${peerId}`) && address.length <= ADDRESS_LENGTH_MAX)
  return [...new Set(own)].slice(0, ADDRESSES_MAX)
}
