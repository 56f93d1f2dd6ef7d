import { type ReactNode, useState } from 'react'

export const ranges = { '24h': '24 h', '7d': '7 d', '30d': '30 d' } as const
export type Range = keyof typeof ranges

type Props = {
  title: string
  /** The sum of the whole range, shown beside the title. */
  total: (range: Range) => ReactNode
  first: Range
  aside?: ReactNode
  children: (range: Range) => ReactNode
}

/** A chart with its sum. The user chooses the range. */
export function ChartSection({ title, total, first, aside, children }: Props) {
  const [range, setRange] = useState<Range>(first)
  return (
    <section className="section">
      <div className="section-head chart-head">
        <div className="chart-title">
          <h2>{title}</h2>
          <p className="chart-total">{total(range)}</p>
        </div>
        <div className="actions">
          {aside}
          <fieldset className="segments">
            <legend className="hidden">Period: {title}</legend>
            {(Object.keys(ranges) as Range[]).map((one) => (
              <button key={one} type="button" aria-pressed={one === range} onClick={() => setRange(one)}>
                {ranges[one]}
              </button>
            ))}
          </fieldset>
        </div>
      </div>
      {children(range)}
    </section>
  )
}
