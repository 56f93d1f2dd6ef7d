import { lazy, type ReactNode, useMemo } from 'react'
import type { Stats } from '../api/types.ts'
import { slotsOf, totalOf } from '../chart-slots.ts'
import { count, percent } from '../format.ts'
import { ChartSection, type Range, ranges } from './chart-section.tsx'
import { Drawn } from './drawn.tsx'

const Chart = lazy(async () => ({ default: (await import('./chart.tsx')).Chart }))
const whole = (value: number) => (Number.isInteger(value) ? count(value) : '')

/** Executions of own agents, with failures in front. */
export function ExecutionsChart({ stats, aside }: { stats: Stats; aside?: ReactNode }) {
  return (
    <ChartSection title="Executions" first="24h" aside={aside} total={(range) => <Total stats={stats} range={range} />}>
      {(range) => <Picture stats={stats} range={range} />}
    </ChartSection>
  )
}

function Total({ stats, range }: { stats: Stats; range: Range }) {
  const { executions, failed } = totalOf(slotsOf(stats, range).slots)
  return (
    <>
      <strong>{count(executions)}</strong>
      {executions > 0 && (
        <span className={failed === 0 ? 'muted' : 'bad-text'}>
          {' '}
          {count(failed)} failed ({percent(failed / executions)})
        </span>
      )}
    </>
  )
}

function Picture({ stats, range }: { stats: Stats; range: Range }) {
  const { times, seconds, series, label } = useMemo(() => {
    const { times, seconds, slots } = slotsOf(stats, range)
    const { executions, failed } = totalOf(slots)
    return {
      times,
      seconds,
      series: [
        { name: 'Executions', values: slots.map((slot) => slot.executions), color: 'accent' as const },
        { name: 'Failed', values: slots.map((slot) => slot.failed), color: 'bad' as const },
      ],
      label: `${executions} executions in the last ${ranges[range]}, ${failed} of them failed`,
    }
  }, [stats, range])
  return (
    <Drawn label={label}>
      <Chart label={label} times={times} series={series} unit={whole} barSeconds={seconds} />
    </Drawn>
  )
}
