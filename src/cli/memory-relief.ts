import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const LOOK_MS = 10_000
/** Growth since the start that justifies a collection: this share plus this many bytes. */
const GROWN_SHARE = 0.25
const GROWN_BYTES = 32 * 1024 * 1024
/** Below this share of busy time since the last check, the process is idle. */
const IDLE_UTILIZATION = 0.1
/** Pause after a collection, because another one soon would bring little. */
const AGAIN_MS = 5 * 60 * 1000

type MemoryReliefDeps = {
  /** Resident memory of the process, in bytes. Throws if all files of the process are in use. */
  rss(): number
  /** Share of time since the last call in which the event loop was busy, 0 to 1. */
  utilization(): number
  /** Monotonic time in ms. */
  now(): number
  /** Frees all unused memory. Blocks the event loop for some tens of ms. */
  collect(): void
}

/**
 * Frees memory after a burst of work.
 *
 * V8 keeps the memory of a burst: the young generation stays large, and buffers wait for a full collection that an idle
 * process never starts. Without this, a node that a peer flooded would stay at several times its usual size.
 *
 * @internal Exported for its test.
 */
export function createMemoryRelief(deps: MemoryReliefDeps): { look(): boolean } {
  let usual: number | undefined
  let collectedAt = Number.NEGATIVE_INFINITY
  return {
    /** @returns true if memory was freed */
    look() {
      const isIdle = deps.utilization() < IDLE_UTILIZATION
      const rss = known(deps.rss)
      if (rss === undefined) return false
      usual ??= rss
      if (!isIdle || rss - usual < GROWN_BYTES + GROWN_SHARE * usual) return false
      if (deps.now() - collectedAt < AGAIN_MS) return false
      collectedAt = deps.now()
      deps.collect()
      return true
    },
  }
}

/** Linux tells it in a file. */
function known(rss: () => number): number | undefined {
  try {
    return rss()
  } catch {
    return undefined
  }
}

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

/** Node exposes the collector only behind a flag. The flag can be set at run time. */
function collector(): Collect {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as Collect
}
