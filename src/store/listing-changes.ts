type QueuedChange<Change> = { change: Change; party: string }

/** Changes of listings that wait to be written, by the party that brought them: one that brings many waits for itself. */
export class ListingChanges<Change extends object> {
  readonly #queued = new Map<string, QueuedChange<Change>>()
  /** The parties whose turn is next come first. */
  readonly #parties = new Map<string, Set<string>>()

  get(id: string): Change | undefined {
    return this.#queued.get(id)?.change
  }

  /** A later change of a listing takes the place of the one that waits. */
  put(id: string, change: Change, by = ''): void {
    const party = this.#queued.get(id)?.party ?? by
    this.#queued.set(id, { change, party })
    const ids = this.#parties.get(party)
    if (ids === undefined) this.#parties.set(party, new Set([id]))
    else ids.add(id)
  }

  ids(party?: string): string[] {
    return party === undefined ? [...this.#queued.keys()] : [...(this.#parties.get(party) ?? [])]
  }

  count(party: string): number {
    return this.#parties.get(party)?.size ?? 0
  }

  /** The next to be written: one of each party, then the second of each. */
  next(max: number): [string, Change][] {
    const group: [string, Change][] = []
    let left = [...this.#parties.values()].map((ids) => ids.values())
    while (left.length > 0 && group.length < max) {
      left = left.filter((ids) => {
        const { value: id, done } = ids.next()
        if (done === true || group.length >= max) return false
        group.push([id, this.#queued.get(id)!.change])
        return true
      })
    }
    return group
  }

  /** It is written, unless it has changed since. */
  done(id: string, change: Change): void {
    const queued = this.#queued.get(id)
    if (queued === undefined) return
    const { party } = queued
    const ids = this.#parties.get(party)!
    if (queued.change === change) {
      this.#queued.delete(id)
      ids.delete(id)
    }
    this.#parties.delete(party)
    if (ids.size > 0) this.#parties.set(party, ids)
  }
}
