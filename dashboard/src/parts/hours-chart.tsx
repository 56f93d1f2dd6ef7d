import { lazy, useMemo } from 'react'
import type { Stats } from '../api/types.ts'
import { count } from '../format.ts'
import { Drawn, slots } from './drawn.tsx'

const Chart = lazy(async () => ({ default: (await import('./chart.tsx')).Chart }))
const HOURS = 48
const HOUR_SECONDS = 3600
const whole = (value: number) => (Number.isInteger(value) ? count(value) : '')

/** Executions per hour, failures in front. */
export function HoursChart({ hours }: { hours: Stats['hours'] }) {
  const { times, series, label } = useMemo(() => {
    const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
    const times = slots(HOURS, HOUR_SECONDS)
    const known = new Map(hours.map((hour) => [Date.parse(hour.hour) / 1000, hour]))
    const executions = times.map((time) => known.get(time)?.executions ?? 0)
    const failed = times.map((time) => known.get(time)?.failed ?? 0)
    return {
      times,
      series: [
        { name: 'Executions', values: executions, color: 'accent' as const },
        { name: 'Failed', values: failed, color: 'bad' as const },
      ],
      label: `${sum(executions)} executions in the last ${HOURS} hours, ${sum(failed)} of them failed`,
    }
  }, [hours])
  return (
    <Drawn label={label}>
      <Chart label={label} times={times} series={series} unit={whole} barSeconds={HOUR_SECONDS} />
    </Drawn>
  )
}
