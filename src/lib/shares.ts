import { Hold } from './hold.ts'

/** The most that each holder takes of something, and all of them together. Default: without a limit. */
type SharesMax = { each: number; all?: number }

/** What holders have taken of something, such as places or bytes. A holder that has nothing takes no memory. */
export class Shares {
  readonly #max: Required<SharesMax>
  readonly #of = new Map<string, number>()
  #all = 0

  constructor({ each, all = Number.POSITIVE_INFINITY }: SharesMax) {
    this.#max = { each, all }
  }

  /**
   * Takes until the end of the block. A single amount beyond a limit is let in where nothing else is.
   *
   * @returns the limit that refuses, if one does
   */
  take(holder: string, amount = 1): Hold | keyof SharesMax {
    const own = this.#of.get(holder) ?? 0
    if (own > 0 && own + amount > this.#max.each) return 'each'
    if (this.#all > 0 && this.#all + amount > this.#max.all) return 'all'
    this.#add(holder, amount)
    return new Hold(() => this.#add(holder, -amount))
  }

  #add(holder: string, amount: number): void {
    this.#all += amount
    const own = (this.#of.get(holder) ?? 0) + amount
    if (own > 0) this.#of.set(holder, own)
    else this.#of.delete(holder)
  }
}
