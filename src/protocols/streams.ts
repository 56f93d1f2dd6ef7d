import type { Stream } from '@libp2p/interface'
import { FramedStream } from './framed-stream.ts'
import { PeerSlots } from './peer-slots.ts'

export type StreamPeer = { peerId: string; addrs: readonly string[] }
export type OpenStream = (
  peer: StreamPeer,
  protocol: string,
  signal: AbortSignal,
  options?: { instead?: Stream | undefined },
) => Promise<Stream>

const IDLE_PER_PEER_MAX = 64
const IDLE_MAX = 512
const IDLE_MS = 60_000
/** Calls at once to one peer. It serves 128 streams, so some are left to ask for the results of calls. */
const CALLS_PER_PEER_MAX = 112
const CALLS_WAITING_MAX = 10_000
/** A seller that ends none of the calls for this long is stuck or hostile: the waiting calls end. */
const SLOT_STALLED_MS = 30_000
const SLOT_WAIT_MS = 5 * 60 * 1000

type Idle = { stream: FramedStream; timer: NodeJS.Timeout }

/**
 * Keeps idle streams of one protocol for each peer and reuses them: five times the throughput of new streams (D23). A
 * stream carries one exchange at a time. A stream that the peer ended while it was idle is detected and replaced.
 */
export class StreamPool {
  readonly #protocol: string
  readonly #open: OpenStream
  readonly #idle = new Map<string, Idle[]>()
  readonly #reuse: boolean
  readonly #superseded: (stream: Stream) => boolean
  readonly #raw = new WeakMap<FramedStream, Stream>()
  readonly #slots: PeerSlots
  #count = 0

  constructor(
    options: { protocol: string; reuse?: boolean; slotStalledMs?: number },
    deps: { open: OpenStream; superseded?(stream: Stream): boolean },
  ) {
    this.#protocol = options.protocol
    this.#reuse = options.reuse ?? true
    this.#open = deps.open
    this.#slots = new PeerSlots({
      callsMax: CALLS_PER_PEER_MAX,
      waitingMax: CALLS_WAITING_MAX,
      stalledMs: options.slotStalledMs ?? SLOT_STALLED_MS,
      waitMs: SLOT_WAIT_MS,
    })
    this.#superseded = deps.superseded ?? (() => false)
  }

  /** Waits for a slot with the peer. @returns a function that frees it @throws PeerError, the signal's reason */
  slot(peerId: string, signal: AbortSignal): Promise<() => void> {
    return this.#slots.take(peerId, signal)
  }

  /** Returns a stream and whether it was used before: then the peer may have ended it without our knowledge. */
  async take(peer: StreamPeer, signal: AbortSignal): Promise<{ stream: FramedStream; reused: boolean }> {
    const idle = this.#idle.get(peer.peerId) ?? []
    for (let last = idle.pop(); last !== undefined; last = idle.pop()) {
      this.#count--
      clearTimeout(last.timer)
      if (idle.length === 0) this.#idle.delete(peer.peerId)
      if (this.#isUsable(last.stream)) return { stream: last.stream, reused: true }
      void last.stream.close().catch(() => {})
    }
    return { stream: await this.open(peer, signal), reused: false }
  }

  /** @param instead a stream whose end, or answer, says that another process of the peer must be asked */
  async open(peer: StreamPeer, signal: AbortSignal, instead?: FramedStream): Promise<FramedStream> {
    const options = instead && { instead: this.#raw.get(instead) }
    const raw = await this.#open(peer, this.#protocol, signal, options)
    const stream = new FramedStream(raw)
    this.#raw.set(stream, raw)
    return stream
  }

  /** Returns a stream after an exchange that ended well. After any other exchange the user aborts the stream. */
  give(peer: StreamPeer, stream: FramedStream): void {
    const idle = this.#idle.get(peer.peerId) ?? []
    const usable = this.#reuse && this.#isUsable(stream)
    if (!usable || idle.length >= IDLE_PER_PEER_MAX || this.#count >= IDLE_MAX) {
      void stream.close().catch(() => {})
      return
    }
    const timer = setTimeout(() => this.#expire(peer.peerId, stream), IDLE_MS).unref()
    idle.push({ stream, timer })
    this.#idle.set(peer.peerId, idle)
    this.#count++
  }

  async close(): Promise<void> {
    const all = [...this.#idle.values()].flat()
    this.#idle.clear()
    this.#count = 0
    for (const { timer } of all) clearTimeout(timer)
    await Promise.allSettled(all.map(({ stream }) => stream.close(AbortSignal.timeout(500))))
  }

  /** False also for a stream over a relay when a direct connection exists. Reuse would keep the relay in use. */
  #isUsable(stream: FramedStream): boolean {
    const raw = this.#raw.get(stream)
    return stream.writable && !stream.ended && !(raw !== undefined && this.#superseded(raw))
  }

  #expire(peerId: string, stream: FramedStream): void {
    const idle = this.#idle.get(peerId)
    const index = idle?.findIndex((one) => one.stream === stream) ?? -1
    if (idle === undefined || index < 0) return
    idle.splice(index, 1)
    this.#count--
    if (idle.length === 0) this.#idle.delete(peerId)
    void stream.close().catch(() => {})
  }
}
