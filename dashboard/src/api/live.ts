import { connection } from './connection.ts'
import { createEventReader, type ServerEvent } from './event-stream.ts'
import { authorization } from './token.ts'

export type Topic = 'listing' | 'order' | 'payment' | 'workflow' | 'approval' | 'status'

const topics: readonly Topic[] = ['listing', 'order', 'payment', 'workflow', 'approval', 'status']
const RETRY_MS = 2_000
/** Pause after the node refused the stream, in ms. The node refuses when too many streams are open. */
const REFUSED_MS = 15_000
/**
 * Hidden tabs close their stream after this time, in ms. A browser keeps six connections to a node, and each stream
 * uses one.
 */
const HIDDEN_MS = 20_000

/**
 * Live events of the node.
 *
 * EventSource cannot send the token, so `fetch` reads the stream. `isLive` is false if the node has no `/events` or the
 * stream is down. Pages then poll instead.
 */
function createLive() {
  let live = false
  let isMissing = false
  let started = false
  let lastId: string | undefined
  let controller: AbortController | undefined
  const listeners = new Set<(changed: readonly Topic[]) => void>()

  function tell(changed: readonly Topic[]): void {
    for (const listener of [...listeners]) listener(changed)
  }

  async function follow(signal: AbortSignal): Promise<void> {
    const resume = lastId === undefined ? {} : { 'last-event-id': lastId }
    const headers = { accept: 'text/event-stream', ...authorization(), ...resume }
    const response = await fetch('/api/events', { headers, signal, cache: 'no-store', credentials: 'omit' })
    if (response.status === 401) connection.refused()
    if (response.status === 404) isMissing = true
    if (!response.ok || response.body === null) return
    connection.answered()
    live = true
    // Events may have happened before the stream opened.
    tell(topics)
    const take = createEventReader(onEvent)
    const decoder = new TextDecoder()
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      take(decoder.decode(chunk, { stream: true }))
    }
  }

  function onEvent({ event, id }: ServerEvent): void {
    if (id !== undefined) lastId = id
    if (event === 'reset') {
      lastId = undefined
      tell(topics)
    } else if ((topics as readonly string[]).includes(event)) tell([event as Topic])
  }

  async function run(): Promise<void> {
    while (!isMissing) {
      controller = new AbortController()
      await untilOpen()
      await follow(controller.signal).catch(() => {})
      const was = live
      live = false
      // The stream ended: check whether the node is still up.
      if (was && !document.hidden) connection.retry()
      await new Promise((resolve) => setTimeout(resolve, was ? RETRY_MS : REFUSED_MS))
    }
  }

  /** Waits for the connection. Requests to a node that is down or wants its token would only fail. */
  async function untilOpen(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const look = () => {
      if (connection.state === 'connected' && !document.hidden) resolve()
    }
    const unsubscribe = connection.subscribe(look)
    document.addEventListener('visibilitychange', look)
    look()
    await promise
    unsubscribe()
    document.removeEventListener('visibilitychange', look)
  }

  function letGoUnseen(): void {
    let timer: ReturnType<typeof setTimeout> | undefined
    document.addEventListener('visibilitychange', () => {
      clearTimeout(timer)
      if (document.hidden) timer = setTimeout(() => controller?.abort(), HIDDEN_MS)
    })
  }

  return {
    get isLive() {
      return live
    },
    start() {
      if (started) return
      started = true
      letGoUnseen()
      void run()
    },
    subscribe(listener: (changed: readonly Topic[]) => void) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

export const live = createLive()
