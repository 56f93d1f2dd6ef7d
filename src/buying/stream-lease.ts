import { NodeStopping } from '../listings/market-error.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../protocols/streams.ts'

/**
 * `fresh`: use a new stream. `urgent`: do not wait until other calls to the same seller end. `instead`: ask another process of
 * the seller than the one at the end of this stream.
 */
type LeaseRequest = {
  seller: StreamPeer
  streams: StreamPool
  fresh?: boolean
  urgent?: boolean
  instead?: FramedStream | undefined
}

/** The right to one exchange with a seller. Ends with its block: see `end`. */
export class StreamLease implements Disposable {
  readonly stream: FramedStream
  /** True if the stream was used before. The seller may have ended it without our knowledge. */
  readonly isReused: boolean
  readonly #wanted: LeaseRequest
  readonly #signal: AbortSignal
  readonly #leave: () => void
  readonly #used: FramedStream[]
  #isOver = false

  /** Borrows a stream from the pool. @throws PeerError OVERLOADED, the error of the connection, the signal's reason */
  static async take(wanted: LeaseRequest, signal: AbortSignal): Promise<StreamLease> {
    const { seller, streams, instead, urgent } = wanted
    const fresh = wanted.fresh === true || instead !== undefined
    const leave = urgent ? () => {} : await streams.slot(seller.peerId, signal)
    try {
      const { stream, reused } = fresh
        ? { stream: await streams.open(seller, signal, instead), reused: false }
        : await streams.take(seller, signal)
      return new StreamLease(wanted, { stream, isReused: reused, leave }, signal)
    } catch (error) {
      leave()
      throw error
    }
  }

  private constructor(
    wanted: LeaseRequest,
    { stream, isReused, leave }: { stream: FramedStream; isReused: boolean; leave(): void },
    signal: AbortSignal,
  ) {
    this.stream = stream
    this.isReused = isReused
    this.#wanted = wanted
    this.#signal = signal
    this.#leave = leave
    this.#used = [stream]
  }

  /** The stream of this exchange, or another stream if the seller has ended it (D23). */
  async current(): Promise<FramedStream> {
    const last = this.#used.at(-1)!
    if (last.writable && !last.ended) return last
    const { seller, streams } = this.#wanted
    const stream = await streams.open(seller, this.#signal)
    this.#used.push(stream)
    return stream
  }

  /** Returns the streams to the pool if the exchange ended with an answer, which may be an error. Else resets them. */
  end(error?: unknown): void {
    if (this.#isOver) return
    this.#isOver = true
    const { seller, streams } = this.#wanted
    const isAnswered = error === undefined || error instanceof PeerError
    // A reset cancels the run at the seller (see protocols/serve). A stopping node keeps the run and asks for it later.
    if (!isAnswered && this.#signal.reason instanceof NodeStopping) return
    for (const stream of this.#used) {
      if (isAnswered) streams.give(seller, stream)
      else stream.abort(error instanceof Error ? error : new Error('the call failed'))
    }
  }

  /** Lets the next call to this seller begin. */
  [Symbol.dispose](): void {
    // An error takes longer to make than a stream to give back.
    if (!this.#isOver) this.end(new Error('the call failed'))
    this.#leave()
  }
}

export async function onStream<T>(
  wanted: LeaseRequest,
  exchange: (lease: StreamLease) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  using lease = await StreamLease.take(wanted, signal)
  try {
    const value = await exchange(lease)
    lease.end()
    return value
  } catch (error) {
    lease.end(error)
    throw error
  }
}
