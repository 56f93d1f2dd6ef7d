import { useEffect, useRef } from 'react'
import '../language.ts'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useIsDark } from '../theme.ts'

export type Series = { name: string; values: readonly number[]; color: 'accent' | 'bad' | 'second' }
type Props = {
  /** A text description of the chart for screen readers. */
  label: string
  /** Unix seconds, ascending. */
  times: readonly number[]
  series: readonly Series[]
  unit: (value: number) => string
  /** Width of a bar in seconds. */
  barSeconds: number
  /** True draws the bars of two series side by side. By default the later series is in front. */
  beside?: boolean
}

const HEIGHT = 180

/** A bar chart over time. It loads only on pages that show one. */
export function Chart({ label, times, series, unit, barSeconds, beside = false }: Props) {
  const place = useRef<HTMLDivElement>(null)
  const isDark = useIsDark()

  // biome-ignore lint/correctness/useExhaustiveDependencies: the colors are read anew when the theme changes
  useEffect(() => {
    const element = place.current!
    const style = getComputedStyle(element)
    const color = (name: string) => style.getPropertyValue(`--${name}`).trim()
    const axis = {
      stroke: color('muted'),
      grid: { stroke: color('line'), width: 1 },
      ticks: { show: false },
      font: '12px system-ui, sans-serif',
    }
    const bars = (index: number) =>
      uPlot.paths.bars!({ size: [beside ? 0.35 : 0.7, 40, 1], align: beside ? (index === 0 ? -1 : 1) : 0 })
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
        legend: { live: true },
        scales: { x: { range: (_, low, high) => [low - barSeconds / 2, high + barSeconds / 2] }, y: { range: yRange } },
        axes: [
          { ...axis, grid: { show: false }, space: 60, values: dateLabels(barSeconds) },
          { ...axis, size: 56, space: 40, values: (_, splits) => splits.map(unit) },
        ],
        series: [
          { label: 'Time', value: (_, value) => (value === null ? '–' : timeLabel(value, barSeconds)) },
          ...series.map(({ name, color: shade }, index) => ({
            label: name,
            paths: bars(index),
            points: { show: false },
            fill: color(shade),
            stroke: color(shade),
            width: 0,
            value: (_: uPlot, value: number | null) => (value === null ? '–' : unit(value)),
          })),
        ],
      },
      [times as number[], ...series.map(({ values }) => values as number[])],
      element,
    )
    const watch = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }))
    watch.observe(element)
    return () => {
      watch.disconnect()
      plot.destroy()
    }
  }, [times, series, unit, barSeconds, beside, isDark])

  return <div className="chart" ref={place} role="img" aria-label={label} />
}

function yRange(_: uPlot, _low: number, high: number): [number, number] {
  return [0, high > 0 ? high * 1.1 : 1]
}

function dateLabels(barSeconds: number) {
  return (_: uPlot, splits: number[]) => splits.map((at) => timeLabel(at, barSeconds))
}

function timeLabel(at: number, barSeconds: number): string {
  const date = new Date(at * 1000)
  // Days are the node's days (UTC). Hours are in the viewer's time zone.
  const timeZone = barSeconds >= 86_400 ? { timeZone: 'UTC' } : {}
  const day = date.toLocaleString('en-GB', { day: 'numeric', month: 'short', ...timeZone })
  if (barSeconds >= 86_400) return day
  return date.getHours() === 0 ? day : `${String(date.getHours()).padStart(2, '0')}:00`
}
