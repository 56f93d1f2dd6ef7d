/** Too many runs are under way and too many wait: try again later. */
export class RunSlotsFull extends Error {
  override name = 'RunSlotsFull'
}

/** The place of one that was let in. */
export type Place = {
  /** Waits until it may run: first come, first served. */
  turn(): Promise<void>
  /** Makes room for others: what follows needs no place. */
  leave(): void
}

/** How many agents run at once, and how many calls may wait for their turn (D36). */
export class RunSlots {
  readonly #concurrentMax: number
  readonly #insideMax: number
  #inside = 0
  #running = 0
  #waiting: (() => void)[] = []
  #whenIdle: (() => void)[] = []

  constructor(options: { concurrentMax: number; waitingMax: number }) {
    this.#concurrentMax = options.concurrentMax
    this.#insideMax = options.concurrentMax + options.waitingMax
  }

  /** Resolves as soon as nothing runs or waits. */
  idle(): Promise<void> {
    if (this.#inside === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /** Lets work in, which has other things to do before and after its turn. @throws RunSlotsFull at once when too many are in */
  async admit<T>(work: (place: Place) => Promise<T>): Promise<T> {
    if (this.#inside >= this.#insideMax) throw new RunSlotsFull('all runs and waiting places are taken')
    this.#inside++
    let [runs, left] = [false, false]
    const place: Place = {
      turn: async () => {
        await this.#turn()
        runs = true
      },
      leave: () => {
        if (left) return
        left = true
        if (runs) this.#passOn()
        if (--this.#inside === 0) for (const resolve of this.#whenIdle.splice(0)) resolve()
      },
    }
    try {
      return await work(place)
    } finally {
      place.leave()
    }
  }

  /** Runs `work` in its turn. @throws RunSlotsFull at once when too many wait */
  run<T>(work: () => Promise<T>): Promise<T> {
    return this.admit(async (place) => {
      await place.turn()
      return work()
    })
  }

  #turn(): Promise<void> {
    if (this.#running >= this.#concurrentMax) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#running++
    return Promise.resolve()
  }

  /** Whoever waits longest takes over the slot. */
  #passOn(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#running--
    else next()
  }
}
