import { PeerError } from './peer-error.ts'

type PeerSlotsOptions = {
  callsMax: number
  waitingMax: number
  /** A waiting call ends if no call to its peer has ended for this long. */
  stalledMs: number
  /** A waiting call ends after this time, although other calls end. */
  waitMs: number
}

type Peer = { taken: number; waiting: Set<() => void>; lastEndAt: number }

/** Limits the calls that run with one peer at the same time. More calls wait in order, for a bounded time. */
export class PeerSlots {
  readonly #options: PeerSlotsOptions
  readonly #peers = new Map<string, Peer>()

  constructor(options: PeerSlotsOptions) {
    this.#options = options
  }

  /**
   * Waits for a slot with the peer. @returns a function that frees the slot, to be called once
   * @throws PeerError `OVERLOADED` at once if too many calls wait, or later if no slot became free in time; the
   * signal's reason
   */
  async take(peerId: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const { callsMax, waitingMax } = this.#options
    const peer = this.#peers.get(peerId) ?? { taken: 0, waiting: new Set(), lastEndAt: 0 }
    this.#peers.set(peerId, peer)
    if (peer.taken < callsMax) peer.taken++
    else if (peer.waiting.size >= waitingMax) {
      throw new PeerError('OVERLOADED', 'too many calls of this node wait for this seller; try again later')
    } else await this.#turn(peer, signal)
    return () => {
      peer.lastEndAt = performance.now()
      const [first] = peer.waiting
      if (first !== undefined) first()
      else if (--peer.taken === 0) this.#peers.delete(peerId)
    }
  }

  /** Waits for a slot. A call that ends passes its slot to the next in the queue. */
  #turn(peer: Peer, signal: AbortSignal): Promise<void> {
    const { callsMax, stalledMs, waitMs } = this.#options
    const from = performance.now()
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout
      const next = () => {
        end()
        resolve()
      }
      const end = () => {
        clearTimeout(timer)
        peer.waiting.delete(next)
        signal.removeEventListener('abort', giveUp)
      }
      const giveUp = () => {
        end()
        reject(signal.reason)
      }
      const look = () => {
        const leftMs = Math.min(from + waitMs, Math.max(from, peer.lastEndAt) + stalledMs) - performance.now()
        if (leftMs > 0) {
          // A timer may fire up to 1 ms early.
          timer = setTimeout(look, leftMs + 1)
          return
        }
        end()
        const seconds = Math.round((performance.now() - from) / 1000)
        const why = `${callsMax} calls of this node are under way with this seller, and none gave way in ${seconds} s`
        reject(new PeerError('OVERLOADED', `${why}: this call was not sent; try again later`))
      }
      peer.waiting.add(next)
      signal.addEventListener('abort', giveUp, { once: true })
      look()
    })
  }
}
