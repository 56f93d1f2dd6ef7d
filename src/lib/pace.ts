/** Longest stretch of work. The event loop waits no longer than this. */
const SLICE_MS = 2
/** While calls come in, each stretch of work is followed by a pause this many times as long. */
const REST_PER_WORK = 4
/** After a call, another one is expected for this long. */
const CALLS_LATELY_MS = 500

type PaceOptions = { sliceMs?: number; now?: () => number }

/**
 * Limits work that strangers cause, such as reading their listings. Calls come first (T32). All such work shares one
 * budget and runs in short slices. While calls come in, each slice is followed by a pause four times as long. Parties
 * take turns, so that one with much work does not delay the others.
 */
export class Pace {
  readonly #sliceMs: number
  readonly #now: () => number
  readonly #waiting = new Map<string, (() => void)[]>()
  #spentMs = 0
  #isResting = false
  #calledAt = Number.NEGATIVE_INFINITY

  constructor({ sliceMs = SLICE_MS, now = () => performance.now() }: PaceOptions = {}) {
    this.#sliceMs = sliceMs
    this.#now = now
  }

  /** True if calls came in lately. */
  get isCalled(): boolean {
    return this.#now() - this.#calledAt < CALLS_LATELY_MS
  }

  /** Records that a call came in or goes out. */
  noteCall(): void {
    this.#calledAt = this.#now()
  }

  /** Runs a short piece of work for a party: now if there is time left, else at that party's turn. */
  run<T>(party: string, work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const item = () => {
        try {
          resolve(work())
        } catch (error) {
          reject(error)
        }
      }
      if (this.#isResting) this.#enqueue(party, item)
      else {
        this.#do(item)
        if (this.#spentMs >= this.#sliceMs) this.#rest()
      }
    })
  }

  /** Like `run`, for work that blocks the event loop later, as a transaction does. `work` returns its ms. */
  async count(party: string, work: () => Promise<number>): Promise<void> {
    const tookMs = await this.run(party, work)
    this.#spentMs += tookMs
    if (!this.#isResting && this.#spentMs >= this.#sliceMs) this.#rest()
  }

  #enqueue(party: string, item: () => void): void {
    const items = this.#waiting.get(party)
    if (items === undefined) this.#waiting.set(party, [item])
    else items.push(item)
  }

  #do(item: () => void): void {
    const from = this.#now()
    item()
    this.#spentMs += this.#now() - from
  }

  #rest(): void {
    const spentMs = this.#spentMs
    this.#spentMs = 0
    this.#isResting = true
    if (this.isCalled) setTimeout(() => this.#goOn(), REST_PER_WORK * spentMs)
    else setImmediate(() => this.#goOn())
  }

  #goOn(): void {
    this.#isResting = false
    while (this.#spentMs < this.#sliceMs) {
      const item = this.#next()
      if (item === undefined) return
      this.#do(item)
    }
    this.#rest()
  }

  /** Returns the next piece of work. Parties take turns. */
  #next(): (() => void) | undefined {
    const [first] = this.#waiting
    if (first === undefined) return undefined
    const [party, items] = first
    this.#waiting.delete(party)
    const item = items.shift()
    if (items.length > 0) this.#waiting.set(party, items)
    return item
  }
}
