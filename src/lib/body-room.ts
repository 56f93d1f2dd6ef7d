import type { IncomingMessage } from 'node:http'

/** Up to this many bytes of a body take no room. */
const SMALL_BYTES = 64 * 1024

const rooms = new WeakMap<IncomingMessage, BodyRoom>()

/**
 * Limits the memory for the body of a request, for every reader of it. Room is taken for what has come, and not for what is
 * announced: who announces much and sends nothing would keep out all others.
 *
 * @param take takes room for this many bytes more. Throws if there is none
 */
export function bodyInRoom(request: IncomingMessage, bytesMax: number, take: (bytes: number) => void): void {
  rooms.set(request, new BodyRoom(bytesMax, take))
}

/** Takes the room that a body of `bytes` so far needs. @throws the refusal, if there is none */
export function makeRoom(request: IncomingMessage, bytes: number): void {
  rooms.get(request)?.holds(bytes)
}

/** The room that one body has. It grows by doubling, as the memory for the body does: small pieces take no more. */
class BodyRoom {
  readonly #bytesMax: number
  readonly #take: (bytes: number) => void
  #held = 0

  constructor(bytesMax: number, take: (bytes: number) => void) {
    this.#bytesMax = bytesMax
    this.#take = take
  }

  holds(bytes: number): void {
    if (bytes <= SMALL_BYTES || bytes <= this.#held) return
    const wanted = Math.max(bytes, Math.min(2 * bytes, this.#bytesMax))
    this.#take(wanted - this.#held)
    this.#held = wanted
  }
}
