export class RunSlotsFull extends Error {
  override name = 'RunSlotsFull'
}

/** The slot of an admitted run. The end of its block frees it (`using`). */
export type RunSlot = Disposable & {
  /** Waits until the run may start. First come, first served. */
  turn(): Promise<void>
  /** Frees the slot early, because the rest of the work needs none. */
  leave(): void
}

/**
 * Limits how many agents run at the same time, and how many calls wait (D36). Callers take turns, so one with many
 * waiting calls delays another by one run. No caller may hold more than half of the slots.
 */
export class RunSlots {
  readonly #concurrentMax: number
  readonly #insideMax: number
  #inside = 0
  readonly #insideOf = new Map<string, number>()
  #running = 0
  /** Waiting calls by caller, the next caller first. Calls of one caller are in order of arrival. */
  readonly #waiting = new Map<string, (() => void)[]>()
  #whenIdle: (() => void)[] = []

  constructor(options: { concurrentMax: number; waitingMax: number }) {
    this.#concurrentMax = options.concurrentMax
    this.#insideMax = options.concurrentMax + options.waitingMax
  }

  /** Resolves when nothing runs or waits. */
  idle(): Promise<void> {
    if (this.#inside === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /**
   * @param caller undefined: the node itself, which may use all slots. @throws RunSlotsFull at once if too many are in
   */
  admit(caller: string | undefined): RunSlot {
    const own = caller === undefined ? 0 : (this.#insideOf.get(caller) ?? 0)
    if (this.#inside >= this.#insideMax || (own > 0 && (own + 1) * 2 > this.#insideMax)) {
      throw new RunSlotsFull('all run slots are taken, and so are all waiting places')
    }
    this.#inside++
    if (caller !== undefined) this.#insideOf.set(caller, own + 1)
    let [runs, left] = [false, false]
    const leave = () => {
      if (left) return
      left = true
      if (runs) this.#passOn()
      if (caller !== undefined) this.#leave(caller)
      if (--this.#inside === 0) for (const resolve of this.#whenIdle.splice(0)) resolve()
    }
    const turn = async () => {
      await this.#turn(caller ?? '')
      runs = true
    }
    return { turn, leave, [Symbol.dispose]: leave }
  }

  /** Runs `work` when a slot is free. @throws RunSlotsFull at once if too many wait */
  async run<T>(caller: string | undefined, work: () => Promise<T>): Promise<T> {
    using slot = this.admit(caller)
    await slot.turn()
    return await work()
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

  /** Passes the slot to the next caller. That caller then goes to the end of the queue. */
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
