import type { Clock } from '../lib/clock.ts'
import { Lanes } from '../lib/lane.ts'
import { TokenBuckets } from '../lib/token-buckets.ts'

export type PeerLimitsOptions = {
  /** Requests a second. A peer may burst to twice this number. */
  requestsPerSecond: number
  streamsMax?: number
  bytesHeldMax?: number
  bytesHeldTotalMax?: number
}

const defaults = { streamsMax: 128, bytesHeldMax: 64 * 1024 * 1024, bytesHeldTotalMax: 256 * 1024 * 1024 }

/** Requests that a fault costs. */
const FAULT_REQUESTS = 10

/** What one peer may use of this node at once (D36). A peer that uses nothing takes no memory. */
export class PeerLimits {
  readonly #options: Required<PeerLimitsOptions>
  readonly #clock: Clock
  readonly #noteCall: () => void
  readonly #requests: TokenBuckets
  readonly #streams = new Map<string, number>()
  readonly #bytes = new Map<string, number>()
  readonly #lanes = new Lanes()
  #bytesTotal = 0

  constructor(options: PeerLimitsOptions, deps: { clock: Clock; noteCall?(): void }) {
    this.#options = { ...defaults, ...options }
    this.#clock = deps.clock
    this.#noteCall = deps.noteCall ?? (() => {})
    const perSecond = options.requestsPerSecond
    this.#requests = new TokenBuckets({ burst: 2 * perSecond, perSecond, keysMax: 10_000 })
  }

  /** Admits a stream. Returns a function that releases it, or undefined if the peer has too many streams. */
  openStream(peerId: string): (() => void) | undefined {
    const open = this.#streams.get(peerId) ?? 0
    if (open >= this.#options.streamsMax) return undefined
    this.#streams.set(peerId, open + 1)
    return () => {
      const left = (this.#streams.get(peerId) ?? 1) - 1
      if (left === 0) this.#streams.delete(peerId)
      else this.#streams.set(peerId, left)
    }
  }

  takeRequest(peerId: string): boolean {
    const isTaken = this.#requests.take(peerId, 1, this.#clock.now())
    if (isTaken) this.#noteCall()
    return isTaken
  }

  /** Counts a useless message that took work against its peer, for example one with a wrong signature. */
  blame(peerId: string): void {
    for (let taken = 0; taken < FAULT_REQUESTS; taken++) {
      if (!this.#requests.take(peerId, 1, this.#clock.now())) return
    }
  }

  /** Records a change of the bytes held for a peer. Returns whether they may be held. */
  holdBytes(peerId: string, change: number): boolean {
    const held = (this.#bytes.get(peerId) ?? 0) + change
    this.#bytesTotal += change
    if (held <= 0) this.#bytes.delete(peerId)
    else this.#bytes.set(peerId, held)
    return change <= 0 || (held <= this.#options.bytesHeldMax && this.#bytesTotal <= this.#options.bytesHeldTotalMax)
  }

  /** Runs the work of one peer one after the other: a request of a few bytes may ask for megabytes (T31). */
  oneByOne<T>(peerId: string, work: () => Promise<T>): Promise<T> {
    return this.#lanes.run(peerId, work)
  }
}
