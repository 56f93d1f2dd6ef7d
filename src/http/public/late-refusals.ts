import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Meters } from '../../lib/meters.ts'
import { tooManyRequests } from './public-error.ts'
import { baseHeaders } from './public-headers.ts'
import { PUBLIC_REQUESTS } from './public-meters.ts'

/** How long a refusal waits. A connection that is refused asks five times a second at most. */
const LATER_MS = 200
/** Refusals of one site that wait, and of all. What is beyond them is refused at once. */
const PER_SITE_MAX = 128
const ALL_MAX = 4_096
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
 * Refuses what an address sends beyond its limit. Who sends as fast as it is answered would otherwise take the time of this
 * process by refusals alone, so these come late. Clients that keep to `Retry-After` see no difference.
 */
export class LateRefusals {
  readonly #meters: Pick<Meters, 'count'>
  readonly #of = new Map<string, number>()
  #all = 0

  constructor({ meters }: { meters: Pick<Meters, 'count'> }) {
    this.#meters = meters
  }

  refuse(site: string, request: IncomingMessage, response: ServerResponse): void {
    this.#meters.count(PUBLIC_REQUESTS, { status: String(status) })
    const own = this.#of.get(site) ?? 0
    if (own >= PER_SITE_MAX || this.#all >= ALL_MAX) return void answer(request, response)
    this.#of.set(site, own + 1)
    this.#all += 1
    setTimeout(() => {
      this.#leave(site)
      answer(request, response)
    }, LATER_MS)
  }

  #leave(site: string): void {
    this.#all -= 1
    const own = this.#of.get(site)! - 1
    if (own > 0) this.#of.set(site, own)
    else this.#of.delete(site)
  }
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  if (response.destroyed) return
  response.writeHead(status, isMuchUnread(request) ? { ...head, connection: 'close' } : head).end(body)
}

/** True if more of a body is to come than is worth reading for its connection. */
export function isMuchUnread({ complete, headers: sent }: Pick<IncomingMessage, 'complete' | 'headers'>): boolean {
  if (complete) return false
  return sent['transfer-encoding'] !== undefined || Number(sent['content-length'] ?? 0) > DROPPED_BYTES_MAX
}
