import { hash } from 'node:crypto'
import type { ListingEntry } from '../../src/listings/set.ts'
import { compareKeys, type ElementKey, elementKey, KEY_BYTES } from '../../src/protocols/sync/reconcile/element-key.ts'
import { SUM_WORDS, stretchElements } from '../../src/protocols/sync/reconcile/element-sum.ts'
import { LISTING_TTL_MS, type ListingRecord } from '../../src/schema/listing.ts'
import type { Random } from './random.ts'

export type UniverseOptions = {
  seed: number
  listings: number
  /** Minutes in which listings change. */
  rounds: number
  forgedPerRound: number
  futureDated: number
}

/** `forged` fails the signature check, and `future` fails the time check. */
export type ElementKind = 'true' | 'forged' | 'future'

export const ROUND_MS = 60_000
/** Time between refreshes of a listing, in ms. */
const REFRESH_MS = 16 * 60 * ROUND_MS
/** Changes of listings for each refresh. */
const CHANGES_PER_REFRESH = 0.1
/** Share of these changes that delist the listing. */
const DELISTED_SHARE = 0.05
const LISTINGS_PER_SELLER = 8
export const START = Date.UTC(2026, 0, 2)

/**
 * Every version of every listing that will ever exist, true or false, in order of time. The replicas of all nodes share
 * it. An element is its place here.
 */
export class Universe {
  readonly size: number
  /** Packed keys, ascending. */
  readonly keys: Uint8Array
  /** The contribution of each element to a sum. */
  readonly words: Int32Array
  readonly listingOf: Uint32Array
  /** The previous version of the same listing, or -1. */
  readonly before: Int32Array
  readonly latest: Int32Array
  /** Elements that all nodes hold at the start: the elements from 0 up to this number. */
  readonly initial: number
  /** The elements of each minute. */
  readonly rounds: { from: number; to: number }[] = []
  readonly #kinds: ElementKind[]
  readonly #delisted = new Set<number>()
  readonly #entries: (ListingEntry | undefined)[] = []
  readonly #seed: number

  constructor(options: UniverseOptions, random: Random) {
    const { seed, listings, rounds, forgedPerRound, futureDated } = options
    const refreshes = Math.max(1, Math.round((listings * ROUND_MS) / REFRESH_MS))
    const changes = Math.max(1, Math.round(refreshes * CHANGES_PER_REFRESH))
    const perRound = refreshes + changes + forgedPerRound
    this.size = listings + rounds * perRound + futureDated
    this.initial = listings
    this.keys = new Uint8Array(this.size * KEY_BYTES)
    this.listingOf = new Uint32Array(this.size)
    this.before = new Int32Array(this.size)
    this.latest = new Int32Array(listings).fill(-1)
    this.#kinds = new Array<ElementKind>(this.size).fill('true')
    this.#seed = seed

    for (let listing = 0; listing < listings; listing++) {
      this.#place(listing, listing, START - REFRESH_MS + Math.floor((listing * REFRESH_MS) / listings))
    }
    let oldest = 0
    for (let round = 0; round < rounds; round++) {
      const from = listings + round * perRound
      this.rounds.push({ from, to: from + perRound })
      for (let turn = 0; turn < perRound; turn++) {
        const element = from + turn
        const time = START + round * ROUND_MS + Math.floor((turn * ROUND_MS) / perRound)
        const chosen = random.below(perRound)
        if (chosen < refreshes) this.#place(element, oldest++ % listings, time)
        else {
          this.#place(element, random.below(listings), time)
          if (chosen >= refreshes + changes) this.#kinds[element] = 'forged'
          else if (random.chance(DELISTED_SHARE)) this.#delisted.add(element)
        }
      }
    }
    for (let element = this.size - futureDated; element < this.size; element++) {
      this.#place(element, random.below(listings), START + 365 * 24 * 60 * ROUND_MS + element)
      this.#kinds[element] = 'future'
    }
    this.words = new Int32Array(this.size * SUM_WORDS)
    for (let from = 0; from < this.size; from += 64) {
      this.words.set(stretchElements(this.keys, from, Math.min(64, this.size - from)), from * SUM_WORDS)
    }
  }

  kindOf(element: number): ElementKind {
    return this.#kinds[element]!
  }

  /** Number of elements before the bound. */
  placeOf(bound: Uint8Array): number {
    let [low, high] = [0, this.size]
    while (low < high) {
      const middle = (low + high) >> 1
      if (compareKeys(this.keys, bound, middle * KEY_BYTES) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  keyOf(element: number): ElementKey {
    return this.keys.subarray(element * KEY_BYTES, (element + 1) * KEY_BYTES)
  }

  /**
   * The element as a listings/set.ts entry: only the fields of its record that merging reads. All nodes share the
   * object.
   */
  entryOf(element: number): ListingEntry {
    const made = this.#entries[element]
    if (made !== undefined) return made
    const listing = this.listingOf[element]!
    const version = this.#timeOf(element)
    const record = {
      id: `listing ${listing}`,
      seller_id: `seller ${Math.floor(listing / LISTINGS_PER_SELLER)}`,
      state: this.#delisted.has(element) ? 'delisted' : 'active',
      version,
      updated_at: version,
      expires_at: version + LISTING_TTL_MS,
    } as ListingRecord
    const entry: ListingEntry = { record, hash: this.#hashOf(element), bytes: 700 }
    this.#entries[element] = entry
    return entry
  }

  /**
   * The last true version of each listing among the elements before `end`. All honest nodes must come to hold these.
   */
  truth(end: number = this.size): number[] {
    return [...this.latest].map((last) => {
      let element = last
      while (element >= end || this.#kinds[element] !== 'true') element = this.before[element]!
      return element
    })
  }

  #timeOf(element: number): number {
    const at = element * KEY_BYTES
    return this.keys.subarray(at, at + 6).reduce((time, byte) => time * 256 + byte, 0)
  }

  #hashOf(element: number): string {
    return hash('sha256', `${this.#seed} ${element}`, 'hex')
  }

  #place(element: number, listing: number, time: number): void {
    this.keys.set(elementKey(time, this.#hashOf(element)), element * KEY_BYTES)
    this.listingOf[element] = listing
    this.before[element] = this.latest[listing]!
    this.latest[listing] = element
  }
}
