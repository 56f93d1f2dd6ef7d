import { PeerError } from './peer-error.ts'

/** Limits the calls that run at once to one peer. Further calls wait, first come, first served. */
export class PeerPlaces {
  readonly #callsMax: number
  readonly #waitingMax: number
  readonly #peers = new Map<string, { taken: number; waiting: Set<() => void> }>()

  constructor(options: { callsMax: number; waitingMax: number }) {
    this.#callsMax = options.callsMax
    this.#waitingMax = options.waitingMax
  }

  /**
   * Waits until another call may run.
   *
   * @returns a function that releases the lease; call it once
   * @throws PeerError `OVERLOADED` at once if too many calls wait; the signal's reason
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

/** Waits for a lease. A call that ends passes its lease to the next in the queue. */
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
