/** Places of ids that have left may be kept until they are as many as those of the others, and these. */
const LEFT_MAX = 64

/** A set of ids that tells the latest of them, however many there are. */
export class LatestIds {
  readonly #placeOf = new Map<string, number>()
  /** In the order in which they came, some of which have left. */
  #places: (string | undefined)[] = []

  get size(): number {
    return this.#placeOf.size
  }

  /** One that is there already comes anew. */
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

  /** As many as `max`, the earliest of them first. */
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
