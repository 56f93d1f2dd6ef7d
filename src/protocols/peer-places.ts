import { PeerError } from './peer-error.ts'

/** How many calls one peer is given at a time. Others wait, in the order in which they came. */
export class PeerPlaces {
  readonly #callsMax: number
  readonly #waitingMax: number
  readonly #peers = new Map<string, { taken: number; waiting: Set<() => void> }>()

  constructor(options: { callsMax: number; waitingMax: number }) {
    this.#callsMax = options.callsMax
    this.#waitingMax = options.waitingMax
  }

  /**
   * Waits for a place.
   *
   * @returns how to give it back, once
   * @throws PeerError `OVERLOADED` at once where too many wait; the signal's reason
   */
  async take(peerId: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const peer = this.#peers.get(peerId) ?? { taken: 0, waiting: new Set() }
    this.#peers.set(peerId, peer)
    if (peer.taken < this.#callsMax) peer.taken++
    else if (peer.waiting.size >= this.#waitingMax) {
      throw new PeerError('OVERLOADED', 'too many calls of this node wait for this seller; try again later')
    } else await turn(peer.waiting, signal)
    return () => {
      const [next] = peer.waiting
      if (next !== undefined) next()
      else if (--peer.taken === 0) this.#peers.delete(peerId)
    }
  }
}

/** Whoever is next takes over the place of one who leaves. */
function turn(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const next = () => {
      end()
      resolve()
    }
    const giveUp = () => {
      end()
      reject(signal.reason)
    }
    const end = () => {
      waiting.delete(next)
      signal.removeEventListener('abort', giveUp)
    }
    waiting.add(next)
    signal.addEventListener('abort', giveUp, { once: true })
  })
}
