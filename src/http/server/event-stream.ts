import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

/** One event of a stream. Without data it only tells where the stream stands: a client that comes back names that id. */
export type ServerSentEvent = { id?: string; event?: string; data?: unknown }

export const eventStreamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  // Some proxies would keep events back until there are many.
  'x-accel-buffering': 'no',
}

/** Between two signs of life: proxies and clients give up on silence. */
const HEARTBEAT_MS = 15_000
/** Whoever takes nothing for this long is let go. */
const STALLED_MS = 60_000

/**
 * Answers a request with events until there are no more, the client has gone, or takes no more.
 *
 * An event is asked for only when the one before it has been taken: what a slow client leaves waiting is its source's to
 * bound.
 */
export async function sendEvents(
  response: ServerResponse,
  events: AsyncIterable<ServerSentEvent>,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(200, eventStreamHeaders)
  response.flushHeaders()
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(':\n\n')
  }, HEARTBEAT_MS)
  try {
    for await (const event of events) {
      if (signal.aborted) break
      if (response.write(eventText(event))) continue
      await once(response, 'drain', { signal: AbortSignal.any([signal, AbortSignal.timeout(STALLED_MS)]) })
    }
    response.end()
  } catch {
    response.destroy()
  } finally {
    clearInterval(heartbeat)
  }
}

/** The events that come as long as whoever follows may see them. */
export async function* whileHeld<T>(events: AsyncIterable<T>, isHeld: () => boolean): AsyncGenerator<T> {
  for await (const event of events) {
    if (!isHeld()) return
    yield event
  }
}

export function eventText({ id, event, data }: ServerSentEvent): string {
  const lines = [
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(event === undefined ? [] : [`event: ${event}`]),
    // JSON has no line breaks.
    ...(data === undefined ? [] : [`data: ${JSON.stringify(data)}`]),
  ]
  return `${lines.join('\n')}\n\n`
}
