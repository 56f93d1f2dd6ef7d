import { smallest } from '../../lib/bigints.ts'
import { priceOfUnits, wordsIn } from '../../payments/pricing.ts'
import type { Pricing, Units } from '../../schema/pricing.ts'
import type { Meter } from './meter.ts'

type PaidOutputOptions = {
  pricing: Pricing
  meter: Meter
  /** What the buyer has covered of the call when it begins. */
  granted: bigint
  /** How long the output waits for its buyer. */
  waitMs: number
  /** Shows output, with what the call costs then. With no text it asks for more. */
  show(text: string, charged: bigint): void
  /** Ends the run: the buyer does not pay for what comes next. */
  cut(): void
}

/**
 * Output that is shown only as far as it is paid for (ADR-37). A piece that is not covered waits, and asks for a higher
 * ceiling. If none comes in time, the output ends with what was paid for. What it holds is bounded by the agent's limit.
 */
export class PaidOutput {
  readonly #options: PaidOutputOptions
  #granted: bigint
  #waiting: string[] = []
  #shown = ''
  #pieces = 0
  #words = 0
  #endsInWord = false
  /** The cost of the whole call, when it has ended. From then on only this must be covered. */
  #total: bigint | undefined
  #late: NodeJS.Timeout | undefined
  #isOver = false
  #isCut = false
  #released: (() => void)[] = []

  constructor(options: PaidOutputOptions) {
    this.#options = options
    this.#granted = options.granted
  }

  /** What was shown: all of it was covered. */
  get shown(): string {
    return this.#shown
  }

  /** True if the buyer did not pay on. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** True while output waits for its buyer to cover it. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0
  }

  get granted(): bigint {
    return this.#granted
  }

  /** Tokens that were shown, at least: each word and each piece of a model has one. */
  get #written(): number {
    return Math.max(this.#words, this.#pieces)
  }

  /** What the call costs that ends with what was shown. */
  get charge(): { amount: bigint; units: Units } {
    const units = this.#options.meter.part(this.#written)
    return { units, amount: smallest(priceOfUnits(this.#options.pricing, units), this.#granted) }
  }

  /** Takes a piece. The promise, if there is one, resolves when it was shown or never will be. */
  push(text: string): void | Promise<void> {
    if (this.#isOver || text === '') return
    this.#waiting.push(text)
    this.#go()
    return this.#whenReleased()
  }

  /** The buyer has covered more. */
  raised(granted: bigint): void {
    if (this.#isOver || granted <= this.#granted) return
    this.#granted = granted
    this.#go()
  }

  /** Waits until the whole call is covered, when its cost is known. False: the output was cut. */
  async finish(units: Units): Promise<boolean> {
    if (this.#isOver) return !this.#isCut
    this.#total = priceOfUnits(this.#options.pricing, units)
    this.#go()
    await this.#whenReleased()
    this.#end()
    return !this.#isCut
  }

  /** The buyer does not pay on. */
  stop(): void {
    if (this.#isOver) return
    this.#isCut = true
    this.#end()
    this.#options.cut()
  }

  /** The run has failed. */
  [Symbol.dispose](): void {
    this.#end()
  }

  /** Shows what is covered, and asks for the rest. */
  #go(): void {
    let shown = 0
    for (const piece of this.#waiting) {
      const cost = this.#costWith(piece)
      if (cost > this.#granted) break
      this.#count(piece)
      this.#options.show(piece, cost)
      shown++
    }
    this.#waiting.splice(0, shown)
    const cost = this.#costWith(this.#waiting[0] ?? '')
    if (cost > this.#granted) {
      this.#ask(cost)
      return
    }
    clearTimeout(this.#late)
    this.#late = undefined
    if (this.#total === undefined) this.#options.meter.start()
    for (const resolve of this.#released.splice(0)) resolve()
  }

  #ask(cost: bigint): void {
    this.#options.meter.pause()
    // A ceiling that is raised too little does not buy more time.
    this.#late ??= setTimeout(() => this.stop(), this.#options.waitMs)
    this.#options.show('', cost)
  }

  /** What the call costs with this piece. */
  #costWith(piece: string): bigint {
    if (this.#total !== undefined) return this.#total
    const { pricing, meter } = this.#options
    const more = piece === '' ? 0 : Math.max(this.#words + wordsIn(piece), this.#pieces + 1)
    return priceOfUnits(pricing, meter.part(Math.max(more, this.#written)))
  }

  #count(piece: string): void {
    // A word may go on from one piece to the next.
    const goesOn = this.#endsInWord && piece[0]!.trim() !== ''
    this.#words += wordsIn(piece) - (goesOn ? 1 : 0)
    this.#endsInWord = piece.at(-1)!.trim() !== ''
    this.#pieces++
    this.#shown += piece
  }

  #whenReleased(): void | Promise<void> {
    if (this.#isOver || (this.#waiting.length === 0 && this.#late === undefined)) return
    return new Promise((resolve) => void this.#released.push(resolve))
  }

  #end(): void {
    this.#isOver = true
    clearTimeout(this.#late)
    this.#waiting = []
    for (const resolve of this.#released.splice(0)) resolve()
  }
}
