import { lazy, useMemo } from 'react'
import type { Stats } from '../api/types.ts'
import { Drawn, slots } from './drawn.tsx'

const Chart = lazy(async () => ({ default: (await import('./chart.tsx')).Chart }))
const DAYS = 30
const DAY_SECONDS = 86_400
/** Pixels, not money: a picture needs no exact amounts. */
const amount = (value: number) => String(Math.round(value * 1e6) / 1e6)

/** Earned and spent, day by day. */
export function DaysChart({ days }: { days: Stats['days'] }) {
  const { times, series } = useMemo(() => {
    const shown = slots(DAYS, DAY_SECONDS)
    const known = new Map(days.map((day) => [Date.parse(`${day.day}T00:00:00Z`) / 1000, day]))
    return {
      times: shown,
      series: [
        { name: 'Earned', values: shown.map((time) => Number(known.get(time)?.earned ?? 0)), color: 'accent' as const },
        { name: 'Paid', values: shown.map((time) => Number(known.get(time)?.paid ?? 0)), color: 'second' as const },
      ],
    }
  }, [days])
  const label = `Earned and paid on each of the last ${DAYS} days, in USDC`
  return (
    <Drawn label={label}>
      <Chart label={label} times={times} series={series} unit={amount} barSeconds={DAY_SECONDS} beside />
    </Drawn>
  )
}
