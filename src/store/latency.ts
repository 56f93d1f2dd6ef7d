import { LastRefusal } from './last-refusal.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import type { StoreError } from './store-error.ts'

/** How long callers waited: half of them at most `p50Ms`, 99 of 100 at most `p99Ms`. */
export type Latency = { p50Ms: number; p99Ms: number; count: number }
/** Latencies of the last `LATELY_MS`. Undefined: nothing was asked for. `refused`: the error of a change refused in the last minute. */
export type LedgerLatency = { read: Latency | undefined; change: Latency | undefined; refused?: StoreError | undefined }

const KEPT_MAX = 512
const LATELY_MS = 5 * 60_000

/** Measures how long callers wait for a ledger, their place in the line included. */
export function measured(database: LedgerDatabase): { database: LedgerDatabase; latency(): LedgerLatency } {
  const [reads, changes] = [new Waits(), new Waits()]
  const refusal = new LastRefusal()
  const note = (error: unknown): never => {
    throw refusal.note(error)
  }
  return {
    database: {
      ...database,
      query: (query) => reads.measure(database.query(query)),
      commit: (change, ...noted) => changes.measure(database.commit(change, ...noted)).catch(note),
      commitLater: (change, ...noted) => database.commitLater(change, ...noted).catch(note),
    },
    latency: () => ({ read: reads.latency(), change: changes.latency(), refused: refusal.current() }),
  }
}

/** How long the last callers waited. */
class Waits {
  readonly #kept: { ms: number; at: number }[] = []
  #next = 0

  async measure<T>(asked: Promise<T>): Promise<T> {
    const since = performance.now()
    try {
      return await asked
    } finally {
      this.#note(since)
    }
  }

  latency(): Latency | undefined {
    const now = performance.now()
    const lately = this.#kept.filter(({ at }) => now - at <= LATELY_MS)
    const times = lately.map(({ ms }) => ms).sort((a, b) => a - b)
    const count = times.length
    if (count === 0) return undefined
    const of = (share: number) => times[Math.min(count - 1, Math.floor(share * count))]!
    return { p50Ms: of(0.5), p99Ms: of(0.99), count }
  }

  #note(since: number): void {
    const at = performance.now()
    this.#kept[this.#next] = { ms: at - since, at }
    this.#next = (this.#next + 1) % KEPT_MAX
  }
}
