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

/**
 * How many agents run at once, and how many calls may wait for their turn (D36).
 *
 * Callers take turns: one that has many calls waiting holds up another's by one run, not by all of them. None may have more than
 * half of the places.
 */
export class RunSlots {
  readonly #concurrentMax: number
  readonly #insideMax: number
  #inside = 0
  readonly #insideOf = new Map<string, number>()
  #running = 0
  /** By caller, whose turn it is next first; of each, who waits longest first. */
  readonly #waiting = new Map<string, (() => void)[]>()
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

  /**
   * Lets work in, which has other things to do before and after its turn.
   *
   * @param caller who has asked for it; undefined: the node itself, which may take all places
   * @throws RunSlotsFull at once when too many are in
   */
  async admit<T>(caller: string | undefined, work: (place: Place) => Promise<T>): Promise<T> {
    const own = caller === undefined ? 0 : (this.#insideOf.get(caller) ?? 0)
    if (this.#inside >= this.#insideMax || (own > 0 && (own + 1) * 2 > this.#insideMax)) {
      throw new RunSlotsFull('all runs and waiting places are taken')
    }
    this.#inside++
    if (caller !== undefined) this.#insideOf.set(caller, own + 1)
    let [runs, left] = [false, false]
    const place: Place = {
      turn: async () => {
        await this.#turn(caller ?? '')
        runs = true
      },
      leave: () => {
        if (left) return
        left = true
        if (runs) this.#passOn()
        if (caller !== undefined) this.#leave(caller)
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
  run<T>(caller: string | undefined, work: () => Promise<T>): Promise<T> {
    return this.admit(caller, async (place) => {
      await place.turn()
      return work()
    })
  }

  #leave(caller: string): void {
    const rest = this.#insideOf.get(caller)! - 1
    if (rest > 0) this.#insideOf.set(caller, rest)
    else this.#insideOf.delete(caller)
  }

  #turn(caller: string): Promise<void> {
    if (this.#running >= this.#concurrentMax) {
      return new Promise((resolve) => {
        const waiting = this.#waiting.get(caller)
        if (waiting === undefined) this.#waiting.set(caller, [resolve])
        else waiting.push(resolve)
      })
    }
    this.#running++
    return Promise.resolve()
  }

  /** The next caller takes over the slot, and then comes after all others. */
  #passOn(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#running--
      return
    }
    const [caller, waiting] = next
    const turn = waiting.shift()!
    this.#waiting.delete(caller)
    if (waiting.length > 0) this.#waiting.set(caller, waiting)
    turn()
  }
}
