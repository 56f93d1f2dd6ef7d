import type { FramedStream } from '../protocols/framed-stream.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { StreamPeer, StreamPool } from '../protocols/stream-pool.ts'
import { MarketError } from './market-error.ts'

/** A pooled stream that failed: its peer may have ended it before we asked. */
export class StaleStream extends Error {
  override name = 'StaleStream'
}

/** Uses a stream to a seller for one exchange. It is kept for the next one unless it failed. */
export async function onStream<T>(
  seller: StreamPeer,
  streams: StreamPool,
  signal: AbortSignal,
  use: (stream: FramedStream) => Promise<T>,
  options: { fresh?: boolean } = {},
): Promise<T> {
  const taken = options.fresh
    ? { stream: await streams.open(seller, signal), reused: false }
    : await streams.take(seller, signal)
  try {
    const value = await use(taken.stream)
    streams.give(seller, taken.stream)
    return value
  } catch (error) {
    if (error instanceof PeerError) {
      streams.give(seller, taken.stream)
      throw error
    }
    taken.stream.abort(error instanceof Error ? error : new Error('the call failed'))
    if (taken.reused && !signal.aborted && !(error instanceof MarketError)) {
      throw new StaleStream('a stream that was kept open had ended', { cause: error })
    }
    throw error
  }
}
