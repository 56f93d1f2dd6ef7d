import { MarketError, NodeStopping } from '../listings/market-error.ts'
import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../protocols/streams.ts'

/** A pooled stream failed. The peer may have closed it before this request. */
export class StaleStream extends Error {
  override name = 'StaleStream'
}

type Use<T> = (stream: FramedStream, reopen: () => Promise<FramedStream>) => Promise<T>
/** `fresh`: use a new stream. `urgent`: do not wait until other calls to the same seller end. */
type Options = { fresh?: boolean; urgent?: boolean }

/**
 * Borrows a stream to a seller for one exchange. `use` may open more streams. All of them return to the pool unless the
 * exchange fails.
 */
export async function onStream<T>(
  seller: StreamPeer,
  streams: StreamPool,
  signal: AbortSignal,
  use: Use<T>,
  options: Options = {},
): Promise<T> {
  if (options.urgent) return exchange(seller, streams, signal, use, options)
  const leave = await streams.place(seller.peerId, signal)
  try {
    return await exchange(seller, streams, signal, use, options)
  } finally {
    leave()
  }
}

async function exchange<T>(
  seller: StreamPeer,
  streams: StreamPool,
  signal: AbortSignal,
  use: Use<T>,
  options: Options,
): Promise<T> {
  const taken = options.fresh
    ? { stream: await streams.open(seller, signal), reused: false }
    : await streams.take(seller, signal)
  const used = [taken.stream]
  const reopen = async () => {
    const stream = await streams.open(seller, signal)
    used.push(stream)
    return stream
  }
  try {
    const value = await use(taken.stream, reopen)
    for (const stream of used) streams.give(seller, stream)
    return value
  } catch (error) {
    if (error instanceof PeerError) {
      for (const stream of used) streams.give(seller, stream)
      throw error
    }
    // A reset cancels the run at the seller (see protocols/serve). A stopping node keeps the run and asks for it later.
    if (signal.reason instanceof NodeStopping) throw error
    for (const stream of used) stream.abort(error instanceof Error ? error : new Error('the call failed'))
    if (taken.reused && !signal.aborted && !(error instanceof MarketError)) {
      throw new StaleStream('a stream that was kept open had ended', { cause: error })
    }
    throw error
  }
}
