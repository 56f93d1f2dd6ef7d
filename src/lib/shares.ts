import { Hold } from './hold.ts'

/**
 * The most that each holder takes of something, and all of them together. Default: without a limit.
 *
 * `leavesHalf`: who holds something takes no more than half of what is left. So a few holders never take all of it, and
 * one that comes later finds room.
 */
type SharesMax = { each: number; all?: number; leavesHalf?: boolean }

/** What holders have taken of something, such as places or bytes. A holder that has nothing takes no memory. */
export class Shares {
  readonly #max: Required<SharesMax>
  readonly #of = new Map<string, number>()
  #all = 0

  constructor({ each, all = Number.POSITIVE_INFINITY, leavesHalf = false }: SharesMax) {
    this.#max = { each, all, leavesHalf }
  }

  /**
   * Takes until the end of the block. A single amount beyond a limit is let in where nothing else is.
   *
   * @returns the limit that refuses, if one does
   */
  take(holder: string, amount = 1): Hold | 'each' | 'all' {
    const { each, all, leavesHalf } = this.#max
    const own = this.#of.get(holder) ?? 0
    if (own > 0 && own + amount > each) return 'each'
    if (this.#all > 0 && this.#all + amount > all) return 'all'
    if (leavesHalf && own > 0 && own + amount > (all - this.#all) / 2) return 'all'
    this.#add(holder, amount)
    return new Hold(() => this.#add(holder, -amount))
  }

  /** True if a holder has nothing, and nothing is left for it. */
  isShutOut(holder: string): boolean {
    return !this.#of.has(holder) && this.#all >= this.#max.all
  }

  #add(holder: string, amount: number): void {
    this.#all += amount
    const own = (this.#of.get(holder) ?? 0) + amount
    if (own > 0) this.#of.set(holder, own)
    else this.#of.delete(holder)
  }
}
