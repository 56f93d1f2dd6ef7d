import type { Load } from '../load.ts'
import { median } from '../statistics.ts'
import { aligned } from '../table.ts'
import type { Cpu, VariantName } from './variants.ts'

export const allLoads: readonly number[] = [1, 16, 64]
export type Sample = Load & { cpuMicros: Cpu; variant: VariantName; concurrent: number; round: number }

export type Goal = { name: string; value: number; limit: number; atMost: boolean; met: boolean }
export type Row = { variant: VariantName; p50Ms: number; p99Ms: number; perSecond: number[]; cpuMicros: Cpu }

/** The median over all rounds of each figure: latency at the first load, CPU time at the last. */
export function rowsOf(samples: readonly Sample[], loads: readonly number[]): Row[] {
  return [...new Set(samples.map(({ variant }) => variant))].map((variant) => {
    const of = (concurrent: number, figure: (sample: Sample) => number) =>
      median(samples.filter((one) => one.variant === variant && one.concurrent === concurrent).map(figure))
    const [least, most] = [loads[0]!, loads.at(-1)!]
    return {
      variant,
      p50Ms: of(least, (one) => one.p50Ms),
      p99Ms: of(least, (one) => one.p99Ms),
      perSecond: loads.map((concurrent) => of(concurrent, (one) => one.perSecond)),
      cpuMicros: {
        buyer: of(most, (one) => one.cpuMicros.buyer),
        seller: of(most, (one) => one.cpuMicros.seller),
        facilitator: of(most, (one) => one.cpuMicros.facilitator),
      },
    }
  })
}

/** Ratios are taken within a round, where both sides met the same machine; then the median of the rounds. */
export function goalsOf(samples: readonly Sample[]): Goal[] {
  const ratio = (to: VariantName, concurrent: number, figure: (sample: Sample) => number) => {
    const of = (variant: VariantName) =>
      samples.filter((one) => one.variant === variant && one.concurrent === concurrent).map(figure)
    const others = of(to)
    return median(of('ours').map((value, round) => value / others[round]!))
  }
  const goal = (name: string, value: number, limit: number, atMost: boolean): Goal => {
    return { name, value, limit, atMost, met: atMost ? value <= limit : value >= limit }
  }
  const perSecond = (sample: Sample) => sample.perSecond
  return [
    goal(
      'one at a time, p50 beside floor B',
      ratio('floor B', 1, (one) => one.p50Ms),
      1.5,
      true,
    ),
    goal('64 concurrent, throughput beside floor A', ratio('floor A', 64, perSecond), 0.4, false),
    goal('64 concurrent, throughput beside HTTP', ratio('HTTP', 64, perSecond), 5, false),
  ]
}

export function reportLines(rows: readonly Row[], goals: readonly Goal[], loads: readonly number[]): string[] {
  const head = [
    '',
    'p50 ms',
    'p99 ms',
    ...loads.map((many) => `${many} conc.`),
    'CPU µs per call: buyer',
    'seller',
    'facilitator',
  ]
  const table = rows.map(({ variant, p50Ms, p99Ms, perSecond, cpuMicros }) => [
    variant,
    p50Ms.toFixed(2),
    p99Ms.toFixed(2),
    ...perSecond.map((value) => `${Math.round(value)}/s`),
    ...Object.values(cpuMicros).map((value) => String(Math.round(value))),
  ])
  return [
    ...aligned([head, ...table]),
    '',
    ...goals.map(({ name, value, limit, atMost, met }) => {
      const wanted = `goal: ${atMost ? 'at most' : 'at least'} ${limit}`
      return `${met ? 'met   ' : 'missed'}  ${name}: ${value.toFixed(2)} × (${wanted})`
    }),
  ]
}
