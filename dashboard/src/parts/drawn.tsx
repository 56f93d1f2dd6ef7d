import { Component, type ReactNode, Suspense } from 'react'

/** Shows the label if this browser cannot draw the picture. */
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
