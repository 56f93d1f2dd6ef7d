import { FairQueue } from '../lib/fair-queue.ts'

export class RunSlotsFull extends Error {
  override name = 'RunSlotsFull'
}

/** The slot of an admitted run. The end of its block frees it (`using`). */
export type RunSlot = Disposable & {
  /** Waits until a run of the agent may start. First come, first served. */
  turn(agentId: string): Promise<void>
  /** Frees the slot early, because the rest of the work needs none. */
  leave(): void
}

type Run = { agentId: string; isFree: boolean }
type Waiting = Run & { start(): void }
type RunSlotsOptions = {
  concurrentMax: number
  waitingMax: number
  /** How many runs of an agent may go at the same time, where less than all slots. It may change: see `wake`. */
  roomFor?(agentId: string): number | undefined
}

/** Of four places, one is not for runs that nobody pays for. */
const PAID_PART = 4
/** Of two places, one caller may hold one; of four, one for runs that nobody pays for. */
const PART_OF_CALLER = 2
const FREE_PART_OF_CALLER = 4

/**
 * Limits how many agents run at the same time, and how many calls wait (D36). Callers take turns, so one with many
 * waiting calls delays another by one run. No caller may hold more than half of the places to run and to wait, and the
 * half of that with free runs: all strangers of the public listener are one caller, and some of them pay (T31). Free runs
 * of others leave a quarter of both to runs that are paid: strangers with many names cost nothing (T7).
 */
export class RunSlots {
  readonly #concurrentMax: number
  readonly #insideMax: number
  readonly #roomFor: (agentId: string) => number | undefined
  readonly #freeMax: { running: number; inside: number }
  readonly #free = { running: 0, inside: 0 }
  #inside = 0
  readonly #insideOf = new Map<string, number>()
  #running = 0
  readonly #runningOf = new Map<string, number>()
  readonly #waiting = new FairQueue<Waiting>()
  #whenIdle: (() => void)[] = []

  constructor(options: RunSlotsOptions) {
    this.#roomFor = options.roomFor ?? (() => undefined)
    this.#concurrentMax = options.concurrentMax
    this.#insideMax = options.concurrentMax + options.waitingMax
    this.#freeMax = { running: freePart(this.#concurrentMax), inside: freePart(this.#insideMax) }
  }

  /** Resolves when nothing runs or waits. */
  idle(): Promise<void> {
    if (this.#inside === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /**
   * @param caller undefined: the node itself, which may use all slots
   * @param options.isFree true if nobody pays for the run
   * @throws RunSlotsFull at once if too many are in
   */
  admit(caller: string | undefined, { isFree = false }: { isFree?: boolean } = {}): RunSlot {
    if (!this.hasRoom(caller, isFree)) throw new RunSlotsFull('all run slots are taken, and so are all waiting places')
    const own = caller === undefined ? 0 : (this.#insideOf.get(caller) ?? 0)
    this.#inside++
    if (isFree) this.#free.inside++
    if (caller !== undefined) this.#insideOf.set(caller, own + 1)
    let left = false
    let running: string | undefined
    const leave = () => {
      if (left) return
      left = true
      if (isFree) this.#free.inside--
      if (running !== undefined) this.#end(running, isFree)
      if (caller !== undefined) this.#leave(caller)
      if (--this.#inside === 0) for (const resolve of this.#whenIdle.splice(0)) resolve()
    }
    const turn = async (agentId: string) => {
      await this.#turn(caller ?? '', { agentId, isFree })
      running = agentId
    }
    return { turn, leave, [Symbol.dispose]: leave }
  }

  /** Runs `work` when a slot is free. @throws RunSlotsFull at once if too many wait */
  async run<T>(caller: string | undefined, agentId: string, work: () => Promise<T>): Promise<T> {
    using slot = this.admit(caller)
    await slot.turn(agentId)
    return await work()
  }

  /** True if `admit` would not throw. */
  hasRoom(caller: string | undefined, isFree = false): boolean {
    const own = caller === undefined ? 0 : (this.#insideOf.get(caller) ?? 0)
    if (isFree && this.#free.inside >= this.#freeMax.inside) return false
    const part = isFree ? FREE_PART_OF_CALLER : PART_OF_CALLER
    return this.#inside < this.#insideMax && (own === 0 || (own + 1) * part <= this.#insideMax)
  }

  /** True if a run of this agent would wait for its turn now. */
  wouldWait(agentId: string): boolean {
    return !this.#mayRun({ agentId, isFree: false })
  }

  #leave(caller: string): void {
    const rest = this.#insideOf.get(caller)! - 1
    if (rest > 0) this.#insideOf.set(caller, rest)
    else this.#insideOf.delete(caller)
  }

  /** Starts calls that may run now, after an agent got more room. */
  wake(): void {
    while (this.#running < this.#concurrentMax && this.#startNext());
  }

  #turn(caller: string, run: Run): Promise<void> {
    if (!this.#mayRun(run)) return new Promise((start) => this.#waiting.add(caller, { ...run, start }))
    this.#begin(run)
    return Promise.resolve()
  }

  #mayRun({ agentId, isFree }: Run): boolean {
    if (isFree && this.#free.running >= this.#freeMax.running) return false
    const own = this.#runningOf.get(agentId) ?? 0
    return this.#running < this.#concurrentMax && own < (this.#roomFor(agentId) ?? this.#concurrentMax)
  }

  #begin({ agentId, isFree }: Run): void {
    this.#running++
    if (isFree) this.#free.running++
    this.#runningOf.set(agentId, (this.#runningOf.get(agentId) ?? 0) + 1)
  }

  /** Gives the slot to the next caller. */
  #end(agentId: string, isFree: boolean): void {
    this.#running--
    if (isFree) this.#free.running--
    const rest = this.#runningOf.get(agentId)! - 1
    if (rest > 0) this.#runningOf.set(agentId, rest)
    else this.#runningOf.delete(agentId)
    this.#startNext()
  }

  /** Starts the first call that may run. @returns false if there is none */
  #startNext(): boolean {
    const next = this.#waiting.next((run) => this.#mayRun(run))
    if (next === undefined) return false
    this.#begin(next)
    next.start()
    return true
  }
}

function freePart(places: number): number {
  return places - Math.min(places - 1, Math.ceil(places / PAID_PART))
}
