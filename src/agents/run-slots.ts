/** Too many runs are under way and too many wait: try again later. */
export class RunSlotsFull extends Error {
  override name = 'RunSlotsFull'
}

/** How many agents run at once, and how many calls may wait for their turn (D36). First come, first served. */
export class RunSlots {
  readonly #concurrentMax: number
  readonly #waitingMax: number
  #running = 0
  #waiting: (() => void)[] = []
  #whenIdle: (() => void)[] = []

  constructor(options: { concurrentMax: number; waitingMax: number }) {
    this.#concurrentMax = options.concurrentMax
    this.#waitingMax = options.waitingMax
  }

  /** Resolves as soon as nothing runs or waits. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /** Runs `work` in a slot. @throws RunSlotsFull at once when the queue is full */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#concurrentMax) {
      if (this.#waiting.length >= this.#waitingMax) throw new RunSlotsFull('all runs and waiting places are taken')
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    } else {
      this.#running++
    }
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next !== undefined) next()
      else if (--this.#running === 0) for (const resolve of this.#whenIdle.splice(0)) resolve()
    }
  }
}
