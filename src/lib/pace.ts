/** Work at a stretch, in ms: whoever needs the event loop waits for no more than this. */
const SLICE_MS = 2
/** While calls come in, others have the event loop for this many times as long after each stretch. */
const REST_PER_WORK = 4
/** For so long after a call the next may be on its way. */
const CALLS_LATELY_MS = 500

type Item = { work: () => void }

export type PaceOptions = { sliceMs?: number; now?: () => number }

/**
 * Work that strangers make for this node, such as listings that they tell of, comes second to calls (T32).
 *
 * All of it shares one budget, whatever it is: it runs in short slices, and while calls come in the event loop is left to
 * them for four times as long after each. Work of several parties is done in turns, so that one who makes much of it does not
 * hold up the others.
 */
export class Pace {
  readonly #sliceMs: number
  readonly #now: () => number
  readonly #waiting = new Map<string, Item[]>()
  #spentMs = 0
  #isResting = false
  #calledAt = Number.NEGATIVE_INFINITY

  constructor({ sliceMs = SLICE_MS, now = () => performance.now() }: PaceOptions = {}) {
    this.#sliceMs = sliceMs
    this.#now = now
  }

  /** Whether calls come in. */
  get isCalled(): boolean {
    return this.#now() - this.#calledAt < CALLS_LATELY_MS
  }

  /** A call has come in, or goes out. */
  noteCall(): void {
    this.#calledAt = this.#now()
  }

  /** Does a short piece of work for a party: at once if there is time left, else when it is that party's turn. */
  run<T>(party: string, work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const item: Item = {
        work: () => {
          try {
            resolve(work())
          } catch (error) {
            reject(error)
          }
        },
      }
      if (this.#isResting) this.#enqueue(party, item)
      else {
        this.#do(item)
        if (this.#spentMs >= this.#sliceMs) this.#rest()
      }
    })
  }

  /** As `run`, for what holds the event loop later, as a transaction does: `work` tells for how long, in ms. */
  async count(party: string, work: () => Promise<number>): Promise<void> {
    const tookMs = await this.run(party, work)
    this.#spentMs += tookMs
    if (!this.#isResting && this.#spentMs >= this.#sliceMs) this.#rest()
  }

  #enqueue(party: string, item: Item): void {
    const items = this.#waiting.get(party)
    if (items === undefined) this.#waiting.set(party, [item])
    else items.push(item)
  }

  #do(item: Item): void {
    const from = this.#now()
    item.work()
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

  /** The parties take turns. */
  #next(): Item | undefined {
    const [first] = this.#waiting
    if (first === undefined) return undefined
    const [party, items] = first
    this.#waiting.delete(party)
    const item = items.shift()
    if (items.length > 0) this.#waiting.set(party, items)
    return item
  }
}
