import { FairQueue } from './fair-queue.ts'
import { Hold } from './hold.ts'

/**
 * A few places for work of many holders. Holders take turns while no place is free: one that comes with much waits for its own
 * work, and delays another by one piece of work.
 */
export class FairPlaces {
  #free: number
  readonly #waiting = new FairQueue<() => void>()

  constructor(places: number) {
    this.#free = places
  }

  /** Resolves when a place is free. The end of the block gives it back. */
  async take(holder: string): Promise<Hold> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((begin) => this.#waiting.add(holder, begin))
    return new Hold(() => this.#giveNext())
  }

  #giveNext(): void {
    const begin = this.#waiting.next()
    if (begin === undefined) this.#free++
    else begin()
  }
}
