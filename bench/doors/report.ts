import { median } from '../statistics.ts'
import { aligned } from '../table.ts'
import type { Flooded, Paid } from './client.ts'
import type { Compared } from './door-client.ts'

export const sellerNames = ['ours', '@x402/express', 'floor'] as const
export type SellerName = (typeof sellerNames)[number]
/** CPU in µs of one call. */
export type PaidSample = Paid & { variant: SellerName; asksFirst: boolean; concurrent: number; round: number } & {
  cpu: { seller: number; client: number; facilitator: number }
}
export type FloodSample = { alone: Paid; flooded: Paid; flood: Flooded }
export type DoorSample = Compared & { model: string }
export type Samples = { paid: readonly PaidSample[]; floods: readonly FloodSample[]; doors: readonly DoorSample[] }
export type Goal = { name: string; value: number; wanted: string; met: boolean }

/** A flood at which honest calls take this many times as long at most. */
const FLOOD_RATIO_MAX = 3

/**
 * Ratios are computed within a round, where both sides met the same machine, and then the median over the rounds is taken.
 */
export function goalsOf({ paid, floods, doors }: Samples): Goal[] {
  const most = Math.max(...paid.map(({ concurrent }) => concurrent))
  const beside = (one: SellerName, other: SellerName, asksFirst: boolean) => {
    const of = (variant: SellerName) =>
      paid.filter((each) => each.variant === variant && each.concurrent === most && each.asksFirst === asksFirst)
    const others = of(other)
    return median(of(one).map(({ perSecond }, round) => perSecond / others[round]!.perSecond))
  }
  const faster = (asksFirst: boolean): Goal[] => {
    const what = asksFirst ? 'with the question for the terms' : 'the paid request alone'
    const name = (other: SellerName) => `paid calls a second beside ${other}, ${most} concurrent, ${what}`
    const [value, ofFloor] = [beside('ours', '@x402/express', asksFirst), beside('ours', 'floor', asksFirst)]
    const reached = beside('floor', '@x402/express', asksFirst).toFixed(2)
    return [
      { name: name('@x402/express'), value, wanted: `at least 3, floor: ${reached}`, met: value >= 3 },
      { name: name('floor'), value: ofFloor, wanted: 'at least 0.75', met: ofFloor >= 0.75 },
    ]
  }
  const door = (model: string) => {
    const value = median(doors.filter((one) => one.model === model).map(({ laterMs }) => laterMs))
    return { name: `OpenAI door, ${model}: p50 later than /execute, ms`, value, wanted: 'at most 3', met: value <= 3 }
  }
  const slower = median(floods.map(({ alone, flooded }) => flooded.p99Ms / alone.p99Ms))
  return [
    ...[true, false].flatMap(faster),
    ...[...new Set(doors.map(({ model }) => model))].map(door),
    {
      ...{ name: 'p99 of honest calls under unpaid requests beside alone', value: slower },
      ...{ wanted: `at most ${FLOOD_RATIO_MAX}`, met: slower <= FLOOD_RATIO_MAX },
    },
  ]
}

export function reportLines({ paid, floods, doors }: Samples): string[] {
  const loads = [...new Set(paid.map(({ concurrent }) => concurrent))]
  const rows = [true, false].flatMap((asksFirst) =>
    loads.flatMap((concurrent) =>
      sellerNames.map((variant) => {
        const found = paid.filter(
          (one) => one.variant === variant && one.concurrent === concurrent && one.asksFirst === asksFirst,
        )
        const of = (figure: (one: PaidSample) => number, digits = 0) => median(found.map(figure)).toFixed(digits)
        return [
          `${variant}, ${asksFirst ? 'asks first' : 'paid alone'}`,
          String(concurrent),
          `${of((one) => one.perSecond)}/s`,
          of((one) => one.p50Ms, 2),
          of((one) => one.p99Ms, 2),
          of((one) => one.cpu.seller),
          of((one) => one.cpu.client),
          of((one) => one.cpu.facilitator),
        ]
      }),
    ),
  )
  const head = ['paid calls', 'conc.', 'a second', 'p50 ms', 'p99 ms', 'CPU µs: seller', 'client', 'facilitator']
  const floodRows = floods.map(({ alone, flooded, flood }, index) => [
    `round ${index + 1}`,
    alone.p50Ms.toFixed(1),
    alone.p99Ms.toFixed(1),
    flooded.p50Ms.toFixed(1),
    flooded.p99Ms.toFixed(1),
    String(flooded.calls),
    `${flood.seconds.toFixed(1)} s: ${Object.entries(flood.statuses)
      .map(([status, count]) => `${count} × ${status}`)
      .join(', ')}`,
  ])
  const floodHead = ['honest calls', 'alone p50', 'p99', 'flooded p50', 'p99 ms', 'calls', 'unpaid requests']
  const doorRows = doors.map(({ model, directMs, doorMs, laterMs }) => [
    model,
    ...[directMs, doorMs, laterMs].map((ms) => ms.toFixed(2)),
  ])
  const doorHead = ['OpenAI door', '/execute p50', 'door p50', 'later p50 ms']
  const tables = [
    [head, rows],
    [floodHead, floodRows],
    [doorHead, doorRows],
  ] as const
  return tables.flatMap(([first, rest]) => (rest.length === 0 ? [] : [...aligned([first, ...rest]), '']))
}

export function goalLines(goals: readonly Goal[]): string[] {
  return goals.map(
    ({ name, value, wanted, met }) => `${met ? 'met   ' : 'missed'}  ${name}: ${value.toFixed(2)} (goal: ${wanted})`,
  )
}
