import { Component, type ReactNode, Suspense } from 'react'

/** The latest `count` slots of time, each `seconds` long, as Unix seconds. The API names only those with something in them. */
export function slots(count: number, seconds: number): number[] {
  const last = Math.floor(Date.now() / 1000 / seconds) * seconds
  return Array.from({ length: count }, (_, index) => last - (count - 1 - index) * seconds)
}

/** A picture that cannot be drawn in this browser leaves its words. */
export class Drawn extends Component<{ label: string; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false }

  static getDerivedStateFromError() {
    return { failed: true }
  }

  override render() {
    const { label, children } = this.props
    if (this.state.failed) return <p className="muted">{label}.</p>
    return <Suspense fallback={<div className="chart" />}>{children}</Suspense>
  }
}
