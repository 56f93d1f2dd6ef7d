import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

/** One event of a stream. An event without data only sets the id from which a client resumes. */
export type ServerSentEvent = {
  id?: string
  event?: string
  /** Sent as JSON. */
  data?: unknown
  /** Sent as it is, in place of `data`: one line. */
  text?: string
}

export const eventStreamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  // Stops proxies that buffer events.
  'x-accel-buffering': 'no',
}

/** Interval of keep-alive comments. Proxies and clients give up on silence. */
const HEARTBEAT_MS = 15_000
/** A client that reads nothing for this long is disconnected. */
const STALLED_MS = 60_000

/**
 * Answers a request with events until there are no more, the client has left, or the client stops reading. Requests the
 * next event only after the previous one was read. The source must bound what a slow client leaves waiting.
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

/** Yields events while the subscriber may see them. */
export async function* whileAllowed<T>(events: AsyncIterable<T>, isAllowed: () => Promise<boolean>): AsyncGenerator<T> {
  for await (const event of events) {
    if (!(await isAllowed())) return
    yield event
  }
}

function eventText({ id, event, data, text = JSON.stringify(data) }: ServerSentEvent): string {
  const lines = [
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(event === undefined ? [] : [`event: ${event}`]),
    // JSON text has no line breaks.
    ...(text === undefined ? [] : [`data: ${text}`]),
  ]
  return `${lines.join('\n')}\n\n`
}
