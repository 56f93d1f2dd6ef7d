import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** How often the process is looked at. */
const LOOK_MS = 10_000
/** Memory beyond that of the start that is worth a collection: this share of it and so many bytes. */
const GROWN_SHARE = 0.25
const GROWN_BYTES = 32 * 1024 * 1024
/** A process that used less of the time since the last look has nothing to do. */
const IDLE_UTILIZATION = 0.1
/** A collection that brings nothing is not repeated soon. */
const AGAIN_MS = 5 * 60 * 1000

export type MemoryReliefDeps = {
  /** Resident memory of the process, in bytes. */
  rss(): number
  /** The share of the time since it was last asked in which the event loop worked, 0 to 1. */
  utilization(): number
  /** Monotonic, in ms. */
  now(): number
  /** Gives all memory back that nothing uses. Holds the event loop for some tens of ms. */
  collect(): void
}

/**
 * Gives memory back after a flood.
 *
 * V8 keeps what a burst of work made it take: its young generation stays as large as it grew, and buffers wait for a full
 * collection that an idle process never starts. So a node that a peer has flooded stayed at several times its size.
 */
export function createMemoryRelief(deps: MemoryReliefDeps): { look(): boolean } {
  let usual: number | undefined
  let collectedAt = Number.NEGATIVE_INFINITY
  return {
    /** @returns whether memory was given back */
    look() {
      const isIdle = deps.utilization() < IDLE_UTILIZATION
      usual ??= deps.rss()
      const grown = deps.rss() - usual
      if (!isIdle || grown < GROWN_BYTES + GROWN_SHARE * usual) return false
      if (deps.now() - collectedAt < AGAIN_MS) return false
      collectedAt = deps.now()
      deps.collect()
      return true
    },
  }
}

/** Looks after the memory of this process until the signal. */
export function relieveMemory(signal: AbortSignal): void {
  let before = performance.eventLoopUtilization()
  const relief = createMemoryRelief({
    rss: () => process.memoryUsage.rss(),
    utilization() {
      const now = performance.eventLoopUtilization()
      const { utilization } = performance.eventLoopUtilization(now, before)
      before = now
      return utilization
    },
    now: () => performance.now(),
    collect: () => collector()({ type: 'major', execution: 'sync', flavor: 'last-resort' }),
  })
  relief.look()
  const timer = setInterval(() => relief.look(), LOOK_MS).unref()
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void

/** Node hands the collector out only behind a flag, which can be set while it runs. */
function collector(): Collect {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as Collect
}
