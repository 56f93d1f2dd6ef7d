import { BoundedMap } from '../lib/bounded-map.ts'
import type { Clock, UnixMs } from '../lib/clock.ts'
import type { Listing } from '../schema/listing.ts'
import type { Search } from '../search/search.ts'

/** Listings that are considered for one request. */
const CONSIDERED_MAX = 300
/** How long a reading of the market is used, in ms. The presence of sellers may be this old. */
const KEPT_MS = 1_000
/** Tags whose listings are kept. Beyond it the oldest reading is dropped. */
const TAGS_MAX = 64

/** `isWhole`: these are all listings that fit. */
type Considered = { listings: readonly Listing[]; isWhole: boolean }
type Kept = Considered & { at: UnixMs; number: number }

/**
 * The agents that requests choose from, with their measurements. Reading a large market takes some milliseconds, so requests
 * within a second share a reading. Before an agent is asked, the node checks its price and its presence.
 */
export class KnownAgents {
  readonly #deps: { search: Pick<Search, 'page'>; clock: Clock }
  readonly #kept = new BoundedMap<string, Kept>(TAGS_MAX)
  #readings = 0

  constructor(deps: { search: Pick<Search, 'page'>; clock: Clock }) {
    this.#deps = deps
  }

  /** How often the market was read. */
  get readings(): number {
    return this.#readings
  }

  /**
   * Listings that can be bought here and are not known to be offline.
   *
   * @param options.after the number of a reading: only later ones are used
   */
  considered(tag?: string, { after = 0 } = {}): Considered {
    const now = this.#deps.clock.now()
    const name = tag ?? ''
    const kept = this.#kept.get(name)
    const isFresh = kept !== undefined && now >= kept.at && now < kept.at + KEPT_MS
    if (isFresh && kept.number > after) return kept
    const read = { ...this.#read(tag), at: now, number: ++this.#readings }
    this.#kept.set(name, read)
    return read
  }

  /** Makes the next request read the market again, after a reading has misled a request. */
  forget(): void {
    this.#kept.clear()
  }

  #read(tag: string | undefined): Considered {
    const filter = { network: 'own', include: 'stats', ...(tag !== undefined && { tags: [tag] }) } as const
    const listings: Listing[] = []
    let cursor: string | undefined
    do {
      const page = this.#deps.search.page({ ...filter, ...(cursor !== undefined && { cursor }) })
      listings.push(...page.items.filter(({ online, buyable }) => buyable && online !== false))
      cursor = page.next
    } while (cursor !== undefined && listings.length < CONSIDERED_MAX)
    const isWhole = cursor === undefined && listings.length <= CONSIDERED_MAX
    return { listings: listings.slice(0, CONSIDERED_MAX), isWhole }
  }
}
