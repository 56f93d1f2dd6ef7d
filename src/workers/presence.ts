import { BoundedMap } from '../lib/bounded-map.ts'
import { type Clock, monotonicOf } from '../lib/clock.ts'

/** So often within the window may an agent lose its last worker before its return is delayed. */
const LOSSES_MAX = 3
const WINDOW_MS = 600_000
/** For how long a worker must then have stayed. */
const STEADY_MS = 60_000
/** Agents remembered: 64 workers may offer 64 each. Beyond it the oldest is forgotten. */
const AGENTS_MAX = 4_096

type Seen = { since: number | undefined; losses: readonly number[] }

/**
 * Which agents have a worker, and for how long.
 *
 * An agent leaves the market at once when its last worker goes, and returns at once when one comes. If that has happened
 * three times within ten minutes, the agent returns when one of its workers has been there for a minute. So a worker that
 * comes and goes makes no flood of listings, and buyers do not call what is about to go.
 */
export class Presence {
  readonly #clock: Clock
  readonly #seen = new BoundedMap<string, Seen>(AGENTS_MAX)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes in which agents have a worker now. */
  note(present: ReadonlySet<string>): void {
    const now = monotonicOf(this.#clock)
    for (const [agent, { since, losses }] of [...this.#seen]) {
      if (since === undefined || present.has(agent)) continue
      this.#seen.set(agent, { since: undefined, losses: [...losses, now].slice(-LOSSES_MAX) })
    }
    for (const agent of present) {
      const seen = this.#seen.get(agent)
      if (seen?.since === undefined) this.#seen.set(agent, { since: now, losses: seen?.losses ?? [] })
    }
  }

  /** True if the agent has a worker, and may be on the market. */
  isSteady(agent: string): boolean {
    const { since, losses } = this.#seen.get(agent) ?? { since: undefined, losses: [] }
    if (since === undefined) return false
    const now = monotonicOf(this.#clock)
    const isUnsteady = losses.length === LOSSES_MAX && now - losses[0]! < WINDOW_MS
    return !isUnsteady || now - since >= STEADY_MS
  }
}
