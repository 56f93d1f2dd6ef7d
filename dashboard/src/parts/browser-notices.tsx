import { useSyncExternalStore } from 'react'
import { notices } from '../notices.ts'

const explained = {
  on: 'This browser can notify you while a tab of this dashboard is open, even in the background.',
  off: 'This browser notifies you while a tab of this dashboard is open, even in the background.',
  refused:
    'This browser blocks notifications of this page. Allow them in the site settings of the browser, then reload the page.',
  unsupported: 'This browser shows notifications only for pages over https or on localhost.',
} as const

/** A switch for notifications of this browser about purchases that wait for approval. */
export function BrowserNotices() {
  const state = useSyncExternalStore(notices.subscribe, () => notices.state)
  const canSwitch = state === 'on' || state === 'off'
  return (
    <div className="switch-row">
      <div>
        <strong id="browser-notices">Browser notifications</strong>
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
