import { lazy, Suspense, useMemo } from 'react'
import type { Stats } from '../api/types.ts'
import { count } from '../format.ts'

const Chart = lazy(async () => ({ default: (await import('./chart.tsx')).Chart }))
const whole = (value: number) => (Number.isInteger(value) ? count(value) : '')

/** Executions per hour, failures in front. */
export function HoursChart({ hours }: { hours: Stats['hours'] }) {
  const { times, series, label } = useMemo(() => {
    const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
    const executions = hours.map((hour) => hour.executions)
    const failed = hours.map((hour) => hour.failed)
    return {
      times: hours.map(({ hour }) => Date.parse(hour) / 1000),
      series: [
        { name: 'Executions', values: executions, color: 'accent' as const },
        { name: 'Failed', values: failed, color: 'bad' as const },
      ],
      label: `${sum(executions)} executions in the last ${hours.length} hours, ${sum(failed)} of them failed`,
    }
  }, [hours])
  return (
    <Suspense fallback={<div className="chart" />}>
      <Chart label={label} times={times} series={series} unit={whole} barSeconds={3600} />
    </Suspense>
  )
}
