import { useEffect, useSyncExternalStore } from 'react'

const SHOWN_MS = 5000
let toast: { text: string; at: number } | undefined
const listeners = new Set<() => void>()

/** Briefly confirms a completed action. Errors appear where they happened, and stay. */
export function say(text: string): void {
  toast = { text, at: performance.now() }
  for (const listener of [...listeners]) listener()
}

function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toast)
  useEffect(() => {
    if (shown === undefined) return
    const timer = setTimeout(() => {
      toast = undefined
      for (const listener of [...listeners]) listener()
    }, SHOWN_MS)
    return () => clearTimeout(timer)
  }, [shown])
  return (
    <div className="toasts" role="status">
      {shown !== undefined && <p>{shown.text}</p>}
    </div>
  )
}
