import { lazy, useMemo } from 'react'
import type { Stats } from '../api/types.ts'
import { decimalText } from '../approval-sums.ts'
import { slotsOf, totalOf } from '../chart-slots.ts'
import { amount } from '../format.ts'
import { ChartSection, type Range, ranges } from './chart-section.tsx'
import { Drawn } from './drawn.tsx'

const Chart = lazy(async () => ({ default: (await import('./chart.tsx')).Chart }))
/** A number for pixels only. Charts need no exact amounts. */
const pixels = (atomic: string) => Number(atomic) / 1e6
const rounded = (value: number) => String(Math.round(value * 1e6) / 1e6)

/** Earned and paid amounts side by side. */
export function MoneyChart({ stats }: { stats: Stats }) {
  return (
    <ChartSection
      title="Earned and paid"
      first="30d"
      total={(range) => {
        const { earned, paid } = totalOf(slotsOf(stats, range).slots)
        return (
          <>
            <strong>{amount(decimalText(earned))}</strong> earned, <strong>{amount(decimalText(paid))}</strong> paid
          </>
        )
      }}
    >
      {(range) => (
        <>
          <Picture stats={stats} range={range} />
          {range !== '24h' && <p className="hint">Days begin at midnight UTC.</p>}
        </>
      )}
    </ChartSection>
  )
}

function Picture({ stats, range }: { stats: Stats; range: Range }) {
  const { times, seconds, series } = useMemo(() => {
    const { times, seconds, slots } = slotsOf(stats, range)
    return {
      times,
      seconds,
      series: [
        { name: 'Earned', values: slots.map((slot) => pixels(slot.earned_atomic)), color: 'accent' as const },
        { name: 'Paid', values: slots.map((slot) => pixels(slot.paid_atomic)), color: 'second' as const },
      ],
    }
  }, [stats, range])
  const label = `Earned and paid in the last ${ranges[range]}, in USDC`
  return (
    <Drawn label={label}>
      <Chart label={label} times={times} series={series} unit={rounded} barSeconds={seconds} beside />
    </Drawn>
  )
}
