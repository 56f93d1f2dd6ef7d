/**
 * Empty places kept beyond twice the number of ids. Above it the list is compacted, so that its memory stays bounded.
 */
const LEFT_MAX = 64

/** A set of ids that finds the latest ids fast, however many ids it has. */
export class LatestIds {
  readonly #placeOf = new Map<string, number>()
  /** Ids in order of arrival. The place of a removed id is undefined. */
  #places: (string | undefined)[] = []

  get size(): number {
    return this.#placeOf.size
  }

  /** Adds an id as the latest, also if the set has it already. */
  add(id: string): void {
    this.delete(id)
    this.#placeOf.set(id, this.#places.push(id) - 1)
  }

  delete(id: string): boolean {
    const place = this.#placeOf.get(id)
    if (place === undefined) return false
    this.#placeOf.delete(id)
    this.#places[place] = undefined
    while (this.#places.length > 0 && this.#places.at(-1) === undefined) this.#places.pop()
    if (this.#places.length > 2 * this.size + LEFT_MAX) this.#close()
    return true
  }

  /** The latest ids, at most `max`, in order of arrival. */
  latest(max: number): string[] {
    const ids: string[] = []
    for (let place = this.#places.length - 1; place >= 0 && ids.length < max; place--) {
      const id = this.#places[place]
      if (id !== undefined) ids.push(id)
    }
    return ids.reverse()
  }

  #close(): void {
    this.#places = this.#places.filter((id) => id !== undefined)
    for (const [place, id] of this.#places.entries()) this.#placeOf.set(id!, place)
  }
}
