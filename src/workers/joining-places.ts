import { WorkError } from './work-error.ts'

/** Strangers that join at once: in all, and from one address. */
const TOTAL_MAX = 32
const SITE_MAX = 8

type Place = { site: string; isSilent: boolean; ending: AbortController }
/** The place of a stranger. `signal` aborts if it is silent and another one needs its place. */
type Joining = { signal: AbortSignal; heard(): void; leave(): void }

/**
 * Places of peers that the seller does not know and that have not presented a join token yet.
 *
 * An honest worker sends its token at once. So where all places are taken, the one that has been silent for the longest
 * time makes room: strangers that say nothing keep nobody out.
 */
export class JoiningPlaces {
  /** In order of arrival. */
  readonly #places = new Set<Place>()

  /** Undefined: all places are taken by peers that have presented a token, which takes them milliseconds. */
  take(site: string): Joining | undefined {
    const rivals = this.#rivals(site)
    if (rivals !== undefined) {
      const silent = rivals.find(({ isSilent }) => isSilent)
      if (silent === undefined) return undefined
      this.#places.delete(silent)
      silent.ending.abort(tooMany())
    }
    const place: Place = { site, isSilent: true, ending: new AbortController() }
    this.#places.add(place)
    return {
      signal: place.ending.signal,
      heard() {
        place.isSilent = false
      },
      leave: () => void this.#places.delete(place),
    }
  }

  /** The places one of which must be given up. Undefined: there is room. */
  #rivals(site: string): Place[] | undefined {
    const all = [...this.#places]
    const near = all.filter((place) => place.site === site)
    if (near.length >= SITE_MAX) return near
    return all.length >= TOTAL_MAX ? all : undefined
  }
}

/** Why a peer is not let in now. */
export function tooMany(): WorkError {
  return new WorkError('OVERLOADED', 'too many attempts to join: try again later')
}
