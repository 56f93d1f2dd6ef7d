import { median } from '../statistics.ts'
import { aligned } from '../table.ts'
import type { Cpu, LedgerCost, Measured, VariantName } from './variants.ts'

export const allLoads: readonly number[] = [1, 16, 64]
export type Sample = Measured & { variant: VariantName; concurrent: number; round: number }

/** `floor`: the value of floor C. */
export type Goal = { name: string; value: number; wanted: string; floor: number; met: boolean }
/** `value` is a ratio, a count, or milliseconds. */
export type FarGoal = { name: string; value: number; wanted: string; met: boolean }
export type Row = { variant: VariantName; p50Ms: number; p99Ms: number; perSecond: number[]; cpuMicros: Cpu }

/** The median of each figure over all rounds: latency at the first load, CPU time at the last. */
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

/**
 * Ratios are computed within a round, where both sides met the same machine, then the median over the rounds is taken.
 * The ratio of floor C stands beside ours: the signatures that every design needs use that part of the goal.
 */
export function goalsOf(samples: readonly Sample[]): Goal[] {
  const ratio = (one: VariantName, other: VariantName, concurrent: number, figure: (sample: Sample) => number) => {
    const of = (variant: VariantName) =>
      samples.filter((sample) => sample.variant === variant && sample.concurrent === concurrent).map(figure)
    const others = of(other)
    return median(of(one).map((value, round) => value / others[round]!))
  }
  const goal = (name: string, side: 'at most' | 'at least', limit: number, of: (variant: VariantName) => number) => {
    const value = of('ours')
    const met = side === 'at most' ? value <= limit : value >= limit
    return { name, value, wanted: `${side} ${limit}`, floor: of('floor C'), met }
  }
  const perSecond = (sample: Sample) => sample.perSecond
  return [
    goal('one at a time, p50 beside floor B', 'at most', 1.5, (one) => ratio(one, 'floor B', 1, ({ p50Ms }) => p50Ms)),
    goal('64 concurrent, throughput beside floor A', 'at least', 0.4, (one) => ratio(one, 'floor A', 64, perSecond)),
    goal('64 concurrent, throughput beside HTTP', 'at least', 5, (one) => ratio(one, 'HTTP', 64, perSecond)),
  ]
}

/**
 * What a seller may lose by a far database: half of its calls a second, and four round trips of time.
 *
 * @param roundTripMs what a round trip to it was measured to take more than to a near one
 */
export function farGoalsOf(samples: readonly Sample[], roundTripMs: number): FarGoal[] {
  const of = (variant: VariantName, concurrent: number, figure: (sample: Sample) => number) =>
    samples.filter((sample) => sample.variant === variant && sample.concurrent === concurrent).map(figure)
  const paired = (
    concurrent: number,
    figure: (sample: Sample) => number,
    compare: (far: number, near: number) => number,
  ) => {
    const near = of('ours (PostgreSQL)', concurrent, figure)
    return median(
      of("ours (seller's PostgreSQL far)", concurrent, figure).map((far, round) => compare(far, near[round]!)),
    )
  }
  const share = paired(
    64,
    ({ perSecond }) => perSecond,
    (far, near) => far / near,
  )
  const later =
    paired(
      1,
      ({ p50Ms }) => p50Ms,
      (far, near) => far - near,
    ) / roundTripMs
  const groups = median(of('ours (PostgreSQL)', 1, ({ ledger }) => ledger!.seller.groups))
  return [
    {
      name: "the seller's groups of a call, one at a time",
      value: groups,
      wanted: 'at most 3',
      met: Math.round(groups * 10) <= 30,
    },
    { name: 'far: 64 concurrent, throughput beside near', value: share, wanted: 'at least 0.5', met: share >= 0.5 },
    { name: 'far: one at a time, p50 later by round trips', value: later, wanted: 'at most 4', met: later <= 4 },
  ]
}

/** What calls on a channel must reach, and `exact` beside what no implementation can leave out: ratios within each round. */
export function channelGoalsOf(samples: readonly Sample[]): FarGoal[] {
  const ratio = (
    [one, other]: readonly [VariantName, VariantName],
    concurrent: number,
    figure: (sample: Sample) => number,
  ) => {
    const of = (variant: VariantName) =>
      samples.filter((sample) => sample.variant === variant && sample.concurrent === concurrent).map(figure)
    const others = of(other)
    return median(of(one).map((value, round) => value / others[round]!))
  }
  const faster = (one: VariantName, other: VariantName, limit: number) => {
    const value = ratio([one, other], 64, ({ perSecond }) => perSecond)
    const name = `${one}, 64 concurrent, throughput beside ${other}`
    return { name, value, wanted: `at least ${limit}`, met: value >= limit }
  }
  const p50 = ratio(['ours (channel)', 'floor B1'], 1, ({ p50Ms }) => p50Ms)
  return [
    faster('ours', 'floor C', 0.75),
    faster('ours', 'floor D', 0.75),
    faster('ours (channel)', 'HTTP', 8),
    faster('ours (channel)', 'floor A1', 0.35),
    faster('ours (channel)', 'floor D1', 0.75),
    { name: 'ours (channel), one at a time, p50 beside floor B1', value: p50, wanted: 'at most 2', met: p50 <= 2 },
  ]
}

/** What a facilitator of 2 s adds to a call whose buyer does not wait for it (D46). */
export function slowGoalsOf(samples: readonly Sample[]): FarGoal[] {
  const of = (variant: VariantName) =>
    samples.filter((one) => one.variant === variant && one.concurrent === 1).map(({ p50Ms }) => p50Ms)
  const instant = of('ours')
  const later = median(of('ours (facilitator 2 s)').map((slow, round) => slow - instant[round]!))
  return [
    { name: 'facilitator of 2 s: one at a time, p50 later, ms', value: later, wanted: 'at most 20', met: later <= 20 },
  ]
}

/** What a call asks of the ledgers and of the curve, at each load: the median over the rounds. */
export function ledgerLines(samples: readonly Sample[], loads: readonly number[]): string[] {
  const counted = samples.filter(({ ledger }) => ledger !== undefined)
  const variants = [...new Set(counted.map(({ variant }) => variant))]
  const head = [
    'ledger, of a call',
    'conc.',
    'statements',
    'round trips',
    'groups',
    'bytes',
    'server CPU µs',
    'signed',
    'recovered',
  ]
  const lines = variants.flatMap((variant) =>
    (['seller', 'buyer'] as const).flatMap((side) =>
      loads.map((concurrent) => {
        const found = counted.filter((one) => one.variant === variant && one.concurrent === concurrent)
        const of = (figure: keyof LedgerCost) => median(found.map(({ ledger }) => ledger![side][figure]))
        return [
          `${variant}: ${side}`,
          String(concurrent),
          of('statements').toFixed(1),
          of('roundTrips').toFixed(2),
          of('groups').toFixed(2),
          of('bytes').toFixed(0),
          of('serverMicros').toFixed(0),
          of('signed').toFixed(2),
          of('recovered').toFixed(2),
        ]
      }),
    ),
  )
  return lines.length === 0 ? [] : ['', ...aligned([head, ...lines])]
}

export function reportLines(rows: readonly Row[], loads: readonly number[]): string[] {
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
  return aligned([head, ...table])
}

export function goalLines(goals: readonly Goal[], far: readonly FarGoal[]): string[] {
  return [
    '',
    ...goals.map(({ name, value, wanted, floor, met }) => {
      const beside = `goal: ${wanted}; floor C: ${floor.toFixed(2)} ×`
      return `${met ? 'met   ' : 'missed'}  ${name}: ${value.toFixed(2)} × (${beside})`
    }),
    ...far.map(
      ({ name, value, wanted, met }) => `${met ? 'met   ' : 'missed'}  ${name}: ${value.toFixed(2)} (goal: ${wanted})`,
    ),
  ]
}
