import { useCallback, useEffect, useRef, useSyncExternalStore } from 'react'
import { isMissing } from './client.ts'
import { connection } from './connection.ts'
import { live, type Topic } from './live.ts'

/** Data that the page shows and keeps up to date. `data` stays while newer data is loading and after an error. */
export type Resource<T> = {
  data: T | undefined
  error: Error | undefined
  loading: boolean
  reload(): void
}
type Options = {
  /** Events of the node that change this data. */
  topics?: readonly Topic[]
  /** Polling interval in ms, for data without events. */
  everyMs?: number
}
type State = { data: unknown; error: Error | undefined; loading: boolean }
type Entry = {
  state: State
  users: number
  /** Time of the last request, on the page's own clock. */
  askedAt: number
  running: AbortController | undefined
  listeners: Set<() => void>
}

const POLL_MS = 5_000
/** Polling interval while events arrive, in ms: a safety net only. */
const LIVE_POLL_MS = 60_000
/** A burst of events causes one request, and at most one request a second. */
const SETTLE_MS = 150
const BUSY_MS = 1_000
/**
 * Delays of two more requests after a listing event, in ms. The search index follows the listings, later on a busy
 * node, because indexing yields to calls.
 */
const INDEXED_MS = [1_500, 6_000]
const KEPT_MAX = 60

const entries = new Map<string, Entry>()
const initial: State = { data: undefined, error: undefined, loading: true }

function entryOf(key: string): Entry {
  const known = entries.get(key)
  if (known !== undefined) return known
  if (entries.size >= KEPT_MAX) {
    for (const [other, { users, listeners }] of entries) if (users === 0 && listeners.size === 0) entries.delete(other)
  }
  const entry: Entry = { state: initial, users: 0, askedAt: -Infinity, running: undefined, listeners: new Set() }
  entries.set(key, entry)
  return entry
}

function change(entry: Entry, state: State): void {
  entry.state = state
  for (const listener of [...entry.listeners]) listener()
}

async function ask(entry: Entry, load: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  entry.running?.abort()
  const controller = new AbortController()
  entry.running = controller
  entry.askedAt = performance.now()
  if (!entry.state.loading) change(entry, { ...entry.state, loading: true })
  try {
    const data = await load(controller.signal)
    if (!controller.signal.aborted) change(entry, { data, error: undefined, loading: false })
  } catch (error) {
    if (controller.signal.aborted) return
    change(entry, { ...entry.state, error: error as Error, loading: false })
  } finally {
    if (entry.running === controller) entry.running = undefined
  }
}

/** `key` names the data: equal keys share one copy. Undefined loads nothing. */
export function useResource<T>(
  key: string | undefined,
  load: (signal: AbortSignal) => Promise<T>,
  { topics = [], everyMs = POLL_MS }: Options = {},
): Resource<T> {
  const latest = useRef(load)
  latest.current = load
  const wanted = topics.join()

  const subscribe = useCallback(
    (listener: () => void) => {
      if (key === undefined) return () => {}
      const { listeners } = entryOf(key)
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    [key],
  )
  const state = useSyncExternalStore(subscribe, () => (key === undefined ? initial : entryOf(key).state))

  const reload = useCallback(() => {
    if (key !== undefined) void ask(entryOf(key), (signal) => latest.current(signal))
  }, [key])

  useEffect(() => {
    if (key === undefined) return
    const entry = entryOf(key)
    // Data without a viewer was not kept up to date.
    const isOld = entry.users === 0 || performance.now() - entry.askedAt > BUSY_MS
    entry.users++
    let soon: ReturnType<typeof setTimeout> | undefined
    const later: (ReturnType<typeof setTimeout> | undefined)[] = []
    if (isOld && entry.running === undefined) reload()
    const unfollow = live.subscribe((changed) => {
      if (!changed.some((topic) => wanted.split(',').includes(topic))) return
      // The first event of a burst starts the timer. So the page follows a stream of events that never pauses.
      soon ??= setTimeout(
        () => {
          soon = undefined
          reload()
        },
        Math.max(SETTLE_MS, entry.askedAt + BUSY_MS - performance.now()),
      )
      if (!changed.includes('listing')) return
      for (const [no, afterMs] of INDEXED_MS.entries()) {
        later[no] ??= setTimeout(() => {
          later[no] = undefined
          reload()
        }, afterMs)
      }
    })
    let was = connection.state
    const unwatch = connection.subscribe(() => {
      // The connection is back, or the token was accepted: the data of the page is old.
      if (connection.state === 'connected' && was !== 'connected' && was !== 'connecting') reload()
      was = connection.state
    })
    const timer = setInterval(() => {
      if (document.hidden || connection.state !== 'connected' || entry.running !== undefined) return
      const isTold = live.isLive && wanted !== ''
      const age = performance.now() - entry.askedAt
      if (age >= (isTold || isMissing(entry.state.error) ? LIVE_POLL_MS : everyMs)) reload()
    }, 1000)
    return () => {
      entry.users--
      clearTimeout(soon)
      for (const timer of later) clearTimeout(timer)
      clearInterval(timer)
      unfollow()
      unwatch()
    }
  }, [key, wanted, everyMs, reload])

  return { data: state.data as T | undefined, error: state.error, loading: state.loading, reload }
}
