import { useState } from 'react'
import type { Alert } from '../alerts.ts'
import { call } from '../api/client.ts'
import { Link } from '../router.tsx'
import { Said } from './said.tsx'
import { say } from './toasts.tsx'

/**
 * Alerts that need a person, each with a link. The user can dismiss an alarm of the node; it returns only with news.
 */
export function AlertList({ alerts, onDismissed }: { alerts: readonly Alert[]; onDismissed(): void }) {
  return (
    <ul className="alerts">
      {alerts.map((alert) => (
        <li key={alert.alarm?.id ?? alert.title} className={alert.tone}>
          <div className="alert-text">
            <strong>{alert.title}</strong>
            <p>
              <Said>{alert.fix}</Said>
            </p>
          </div>
          <div className="actions">
            <Link to={alert.to} className="button">
              {alert.action}
            </Link>
            {alert.alarm !== undefined && <Dismiss alarm={alert.alarm} title={alert.title} onDone={onDismissed} />}
          </div>
        </li>
      ))}
    </ul>
  )
}

function Dismiss({ alarm, title, onDone }: { alarm: { id: string; mark: string }; title: string; onDone(): void }) {
  const [busy, setBusy] = useState(false)
  async function dismiss() {
    setBusy(true)
    try {
      const body = { mark: alarm.mark }
      await call(`/alarms/${encodeURIComponent(alarm.id)}/dismiss`, { method: 'POST', body })
      say('Dismissed. The alarm returns only when something new happens.')
      onDone()
    } catch (error) {
      say((error as Error).message)
    }
    setBusy(false)
  }
  return (
    <button type="button" className="quiet" aria-label={`Dismiss: ${title}`} disabled={busy} onClick={dismiss}>
      Dismiss
    </button>
  )
}
