import { BoundedMap } from '../lib/bounded-map.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'
import { type Backoff, doubledMs } from '../lib/retry.ts'

/** From so many failures in a row on, a worker gets no task of an agent while another worker can run it. */
const FAILURES_MAX = 3
/** For how long. It doubles each time that the worker fails its trial. */
const ASIDE: Backoff = { firstMs: 10_000, mostMs: 300_000 }
/** For how long one failure counts. */
const DOUBT_MS = 60_000
/** Workers and agents remembered: more than 256 workers have. Beyond it the oldest is forgotten. */
const STANDINGS_MAX = 4_096

type Standing = {
  /** In a row, since the last result or the last time that it was set aside. */
  failures: number
  /** How often it was set aside since its last result. */
  asides: number
  until: number
  failedAt: number
  /** The connection that was lost last: with it, all its runs were. */
  lostLink?: object
}

/**
 * How workers do with the tasks of each agent. A worker that fails each task at once is always the idlest, so without
 * this it would get them all.
 *
 * For a minute after a failure a worker comes after those that have none. After three in a row it is set aside for 10 s. Then it
 * is on trial: it gets one task at a time. A result clears it. A failure sets it aside for twice as long, up to 5 minutes.
 *
 * A worker keeps its standing when it connects again, and another process of the seller finds out by itself.
 */
export class WorkerStandings {
  readonly #clock: Clock
  readonly #standings = new BoundedMap<string, Standing>(STANDINGS_MAX)
  /** Runs that workers have now. */
  readonly #running = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** True for a minute after it failed a task of this agent, unless it has had a result since. */
  isDoubtful(worker: string, agent: string): boolean {
    const standing = this.#standings.get(keyOf(worker, agent))
    return standing !== undefined && monotonicOf(this.#clock) < standing.failedAt + DOUBT_MS
  }

  /** True while it gets a task of this agent only if no other worker can run it. */
  isAside(worker: string, agent: string): boolean {
    const standing = this.#standings.get(keyOf(worker, agent))
    return standing !== undefined && monotonicOf(this.#clock) < standing.until
  }

  /** True after it was set aside, until it has a result. */
  isOnTrial(worker: string, agent: string): boolean {
    return (this.#standings.get(keyOf(worker, agent))?.asides ?? 0) > 0
  }

  /** False if it is on trial and has a task of this agent. */
  mayTake(worker: string, agent: string): boolean {
    return !this.isOnTrial(worker, agent) || !this.#running.has(keyOf(worker, agent))
  }

  /** A run begins. The result says that it has ended. */
  begin(worker: string, agent: string): () => void {
    const key = keyOf(worker, agent)
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1)
    return () => {
      const rest = this.#running.get(key)! - 1
      if (rest > 0) this.#running.set(key, rest)
      else this.#running.delete(key)
    }
  }

  succeeded(worker: string, agent: string): void {
    this.#standings.delete(keyOf(worker, agent))
  }

  /**
   * @param lostLink the connection, if it was lost with the run: its other runs are no further failures
   * @returns for how long the worker is set aside now; undefined: it is not, or was already
   */
  failed(worker: string, agent: string, lostLink?: object): number | undefined {
    const key = keyOf(worker, agent)
    const known = this.#standings.get(key) ?? { failures: 0, asides: 0, until: 0, failedAt: 0 }
    const now = monotonicOf(this.#clock)
    // Tasks that had begun before it was set aside.
    if (now < known.until || (lostLink !== undefined && known.lostLink === lostLink)) return undefined
    const failures = known.failures + 1
    const isAside = known.asides > 0 || failures >= FAILURES_MAX
    const asides = known.asides + (isAside ? 1 : 0)
    const ms = isAside ? doubledMs(asides, ASIDE) : undefined
    const lost = lostLink === undefined ? {} : { lostLink }
    this.#standings.set(key, {
      failures: isAside ? 0 : failures,
      asides,
      until: now + (ms ?? 0),
      failedAt: now,
      ...lost,
    })
    return ms
  }
}

function keyOf(worker: string, agent: string): string {
  return `${worker} ${agent}`
}
