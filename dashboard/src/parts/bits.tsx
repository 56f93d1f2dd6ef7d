import { type ReactNode, useEffect, useState } from 'react'
import { ago, moment, short } from '../format.ts'
import { copyText } from './clipboard.ts'

export function PageHead({ title, children }: { title: ReactNode; children?: ReactNode }) {
  return (
    <div className="page-head">
      <h1>{title}</h1>
      {children !== undefined && <div className="actions">{children}</div>}
    </div>
  )
}

export function Section({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <section className="section">
      <div className="section-head">
        <h2>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  )
}

export function Figure({
  label,
  value,
  unit,
  note,
}: {
  label: string
  value: string
  unit?: string
  note?: ReactNode
}) {
  return (
    <div className="figure">
      <dt>{label}</dt>
      <dd>
        <span className="figure-value">{value}</span>
        {unit !== undefined && <span className="unit"> {unit}</span>}
        {note !== undefined && <span className="figure-note">{note}</span>}
      </dd>
    </div>
  )
}

export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'plain'
const tones: Record<string, Tone> = {
  completed: 'good',
  settled: 'good',
  approved: 'good',
  public: 'good',
  ok: 'good',
  relayed: 'good',
  failed: 'bad',
  unsettled: 'bad',
  unreachable: 'bad',
  denied: 'bad',
  pending: 'busy',
  executing: 'busy',
  running: 'busy',
  owed: 'busy',
  authorized: 'busy',
  reserved: 'busy',
  paused: 'warn',
  unknown: 'plain',
}

/** A state in words. The color only repeats the words. */
export function Badge({ state, tone, children }: { state: string; tone?: Tone; children?: ReactNode }) {
  // The API spells the state of an order `cancelled`, and everything else with one l.
  const text = state === 'cancelled' ? 'canceled' : state
  return <span className={`badge ${tone ?? tones[state] ?? 'plain'}`}>{children ?? text}</span>
}

let now = Date.now()
const ticking = new Set<(now: number) => void>()
setInterval(() => {
  now = Date.now()
  if (!document.hidden) for (const tick of [...ticking]) tick(now)
}, 10_000)

export function useNow(): number {
  const [shown, setShown] = useState(now)
  useEffect(() => {
    ticking.add(setShown)
    return () => void ticking.delete(setShown)
  }, [])
  return shown
}

export function Ago({ iso }: { iso: string }) {
  // A time newer than the last tick is not in the future.
  const at = Math.max(useNow(), Math.min(Date.parse(iso), Date.now()))
  return (
    <time dateTime={iso} title={moment(iso)}>
      {ago(iso, at)}
    </time>
  )
}

/** A shortened identifier. A click copies the whole identifier. */
export function Id({ value, ends, what = 'identifier' }: { value: string; ends?: number; what?: string }) {
  return (
    <button type="button" className="id" title={`${value} (click to copy)`} onClick={() => copyText(value, what)}>
      {ends === 0 ? value : short(value, ends)}
    </button>
  )
}

export function Facts({ rows }: { rows: readonly (readonly [string, ReactNode] | undefined | false)[] }) {
  return (
    <dl className="facts">
      {rows.map(
        (row) =>
          row && (
            <div key={row[0]}>
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>
          ),
      )}
    </dl>
  )
}

/** Text of a seller or caller, shown as plain text (T10). */
export function Words({ text, label }: { text: string; label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className="words" tabIndex={0} aria-label={label}>
      <pre>{text}</pre>
    </section>
  )
}
