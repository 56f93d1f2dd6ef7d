import type { IncomingMessage, ServerResponse } from 'node:http'
import { Hold } from '../../lib/hold.ts'
import type { Meters } from '../../lib/meters.ts'
import { Shares } from '../../lib/shares.ts'
import { tooManyRequests } from './public-error.ts'
import { baseHeaders } from './public-headers.ts'
import { PUBLIC_REQUESTS } from './public-meters.ts'

/** How long a refusal waits. So a refused connection sends at most five requests a second. */
const LATER_MS = 200
/** Refusals that wait, of one site and of all. Beyond it a request is refused at once. */
const WAITING_MAX = { each: 128, all: 4_096 }
/** Bytes of a body that are read and dropped, to keep its connection. */
const DROPPED_BYTES_MAX = 64 * 1024

const { status, headers, body } = tooManyRequests()
const head = {
  ...baseHeaders,
  ...headers,
  'content-type': 'application/json',
  'content-length': Buffer.byteLength(body),
}

/**
 * Refuses the requests of an address beyond its limit, and does so late: a client that sends as fast as it is answered
 * would otherwise keep this process busy with refusals alone. Clients that keep to `Retry-After` see no difference.
 */
export class LateRefusals {
  readonly #meters: Pick<Meters, 'count'>
  readonly #waiting = new Shares(WAITING_MAX)

  constructor({ meters }: { meters: Pick<Meters, 'count'> }) {
    this.#meters = meters
  }

  refuse(site: string, request: IncomingMessage, response: ServerResponse): void {
    this.#meters.count(PUBLIC_REQUESTS, { status: String(status) })
    const waiting = this.#waiting.take(site)
    if (!(waiting instanceof Hold)) return void answer(request, response)
    setTimeout(() => {
      waiting[Symbol.dispose]()
      answer(request, response)
    }, LATER_MS)
  }
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  if (response.destroyed) return
  response.writeHead(status, isMuchUnread(request) ? { ...head, connection: 'close' } : head).end(body)
}

/** True if the unread rest of a body is, or may be, too long to read only to keep the connection. */
export function isMuchUnread({ complete, headers: sent }: Pick<IncomingMessage, 'complete' | 'headers'>): boolean {
  if (complete) return false
  return sent['transfer-encoding'] !== undefined || Number(sent['content-length'] ?? 0) > DROPPED_BYTES_MAX
}
