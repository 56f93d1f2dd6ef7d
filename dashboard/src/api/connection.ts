import { authorization } from './token.ts'

/** `locked`: the node asks for its token. `lost`: the node does not answer and the page keeps asking. */
export type ConnectionState = 'connecting' | 'connected' | 'lost' | 'locked'

const RETRY_MS = [500, 1000, 2000, 4000, 5000]
const PROBE_TIMEOUT_MS = 4000

/** The connection state of the whole page. Every request updates it. */
function createConnection() {
  let state: ConnectionState = 'connecting'
  let retries = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  const listeners = new Set<() => void>()

  function become(next: ConnectionState): void {
    if (state === next) return
    state = next
    for (const listener of [...listeners]) listener()
  }

  function probeSoon(): void {
    clearTimeout(timer)
    timer = setTimeout(probe, RETRY_MS[Math.min(retries++, RETRY_MS.length - 1)])
  }

  async function probe(): Promise<void> {
    try {
      // `/health` needs no token, so a success shows only that the node is up again.
      const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS)
      const answer = await fetch('/api/health', { headers: authorization(), signal, cache: 'no-store' })
      if (answer.ok) return answered()
    } catch {
      // The node is still down.
    }
    probeSoon()
  }

  function answered(): void {
    retries = 0
    clearTimeout(timer)
    if (state !== 'locked') become('connected')
  }

  return {
    get state() {
      return state
    },
    subscribe(listener: () => void) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    answered,
    lost() {
      if (state === 'lost' || state === 'locked') return
      become('lost')
      probeSoon()
    },
    refused: () => become('locked'),
    unlocked: () => become('connected'),
    /** Asks at once, because the user clicked. */
    retry() {
      retries = 0
      clearTimeout(timer)
      void probe()
    },
  }
}

export const connection = createConnection()
