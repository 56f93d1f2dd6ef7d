import { useSyncExternalStore } from 'react'
import { notices } from '../notices.ts'

const explained = {
  on: 'While a tab of this dashboard is open, also one behind others, this browser tells you.',
  off: 'This browser tells you while a tab of this dashboard is open, also one behind others.',
  refused:
    'This browser has been told not to show notices of this page: allow them in its site settings, and come back.',
  unsupported: 'This browser shows notices only of pages over https or on localhost.',
} as const

/** A switch for notifications of this browser about purchases that wait for approval. */
export function BrowserNotices() {
  const state = useSyncExternalStore(notices.subscribe, () => notices.state)
  const canSwitch = state === 'on' || state === 'off'
  return (
    <div className="switch-row">
      <div>
        <strong id="browser-notices">Notices of this browser</strong>
        <p className="hint">{explained[state]}</p>
      </div>
      <button
        type="button"
        role="switch"
        className="switch"
        aria-checked={state === 'on'}
        aria-labelledby="browser-notices"
        disabled={!canSwitch}
        onClick={() => (state === 'on' ? notices.turnOff() : void notices.turnOn())}
      />
    </div>
  )
}
