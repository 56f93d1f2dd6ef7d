import { Hold } from './hold.ts'

/**
 * A few places for work of many holders. Holders take turns while no place is free: one that comes with much waits for its own
 * work, and delays another by one piece of work.
 */
export class FairPlaces {
  #free: number
  /** By holder, the next one first. What one holder wants is in order of arrival. */
  readonly #waiting = new Map<string, (() => void)[]>()

  constructor(places: number) {
    this.#free = places
  }

  /** Resolves when a place is free. The end of the block gives it back. */
  async take(holder: string): Promise<Hold> {
    if (this.#free > 0) this.#free--
    else {
      await new Promise<void>((begin) => {
        const waiting = this.#waiting.get(holder)
        if (waiting === undefined) this.#waiting.set(holder, [begin])
        else waiting.push(begin)
      })
    }
    return new Hold(() => this.#giveNext())
  }

  #giveNext(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free++
      return
    }
    const [holder, [begin, ...rest]] = next
    this.#waiting.delete(holder)
    if (rest.length > 0) this.#waiting.set(holder, rest)
    begin!()
  }
}
