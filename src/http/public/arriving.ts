import type { IncomingMessage, ServerResponse } from 'node:http'
import { rawPublicError } from './public-error.ts'

const BUSY = rawPublicError(
  '503 Service Unavailable',
  'BUSY',
  'this node has too many requests, and this one came slowly',
)

/**
 * Requests of which the rest has not come yet. When all places are taken, the oldest of them gives up its place, so clients
 * that send slowly keep nobody out. A client that sends its request at once is never among them for long.
 */
export class Arriving {
  /** With what gives back all that a request has taken, the oldest first. */
  readonly #requests = new Map<IncomingMessage, () => void>()

  add(request: IncomingMessage, response: ServerResponse, release: () => void): void {
    this.#requests.set(request, release)
    response.once('close', () => this.#requests.delete(request))
  }

  endOldest(): void {
    for (const [request, release] of this.#requests) {
      this.#requests.delete(request)
      if (request.complete || request.destroyed) continue
      release()
      request.socket.end(BUSY)
      request.socket.destroySoon()
      return
    }
  }
}
