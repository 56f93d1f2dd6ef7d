import { median, quantile } from './statistics.ts'

export type LoadPlan = { concurrent: number; durationMs: number }
export type Load = { calls: number; perSecond: number; p50Ms: number; p99Ms: number }

/**
 * Keeps `concurrent` calls running for a time. A failed call ends the bench, because figures of failed calls mean
 * nothing.
 */
export async function runLoad(plan: LoadPlan, call: () => Promise<void>): Promise<Load> {
  const latencies: number[] = []
  const start = performance.now()
  const end = start + plan.durationMs
  await Promise.all(
    Array.from({ length: plan.concurrent }, async () => {
      for (let from = performance.now(); from < end; ) {
        await call()
        const to = performance.now()
        latencies.push(to - from)
        from = to
      }
    }),
  )
  const elapsedMs = performance.now() - start
  return {
    calls: latencies.length,
    perSecond: (latencies.length / elapsedMs) * 1000,
    p50Ms: median(latencies),
    p99Ms: quantile(latencies, 0.99),
  }
}
