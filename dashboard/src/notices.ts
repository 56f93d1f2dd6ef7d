import { page } from './api/client.ts'
import { connection } from './api/connection.ts'
import type { Approval } from './api/types.ts'
import { newOnes, wordsOf } from './notice-words.ts'
import { navigate } from './router.tsx'

const KEY = 'stoa.notices'
/** Polling interval in ms. Polling continues in hidden tabs, because notifications are for those. */
const ASK_MS = 15_000

export type NoticesState = 'on' | 'off' | 'refused' | 'unsupported'

const listeners = new Set<() => void>()
const isSupported = () => 'Notification' in window && window.isSecureContext

export const notices = {
  get state(): NoticesState {
    if (!isSupported()) return 'unsupported'
    if (Notification.permission === 'denied') return 'refused'
    return localStorage.getItem(KEY) === 'on' && Notification.permission === 'granted' ? 'on' : 'off'
  },
  /** Asks the browser for permission, and the browser asks the user. */
  async turnOn(): Promise<void> {
    if (isSupported() && (await Notification.requestPermission()) === 'granted') localStorage.setItem(KEY, 'on')
    tell()
  },
  turnOff(): void {
    localStorage.removeItem(KEY)
    tell()
  },
  subscribe(listener: () => void) {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
}

function tell(): void {
  for (const listener of [...listeners]) listener()
}

/** Announces purchases that wait for approval, if the user turned that on. */
export function watchApprovals(): void {
  const seen = new Set<string>()
  let isFirst = true
  let isAsking = false
  setInterval(async () => {
    if (notices.state !== 'on' || connection.state !== 'connected' || isAsking) return
    isAsking = true
    try {
      const { items } = await page<Approval>('/approvals', { status: 'pending' }, AbortSignal.timeout(ASK_MS))
      for (const approval of newOnes(items, seen, isFirst)) show(approval)
      isFirst = false
    } catch {
      // The page itself reports that the node is down.
    } finally {
      isAsking = false
    }
  }, ASK_MS)
}

function show(approval: Approval): void {
  const [title, body] = wordsOf(approval)
  // If several tabs announce the purchase, the tag leaves one notification.
  const notice = new Notification(title, { body, tag: `stoa-${approval.id}` })
  notice.onclick = () => {
    window.focus()
    navigate('/approvals')
    notice.close()
  }
}
