import type { Stream, StreamMuxerFactory } from '@libp2p/interface'

/** What libp2p's streams have beside their interface, as far as it is used here. */
type Readable = { readStatus: string; unshift(data: unknown): void }

/**
 * Makes inbound streams take back what protocol negotiation has read too much, also after the other side has ended its
 * side of the stream.
 *
 * Go clients send negotiation, request and half-close in one go. libp2p's negotiation then reads all of it, finds the
 * reading side closed, throws when it hands the request back, and the stream is reset without an answer. Goes when
 * `AbstractMessageStream.unshift` of `@libp2p/utils` takes bytes on a half-closed stream.
 */
export function takeBackAfterEnd(factory: StreamMuxerFactory): StreamMuxerFactory {
  const create = factory.createStreamMuxer.bind(factory)
  factory.createStreamMuxer = (connection) => {
    const muxer = create(connection)
    // Not a listener of our own: with one, the muxer would no longer keep streams that come before the connection is set up.
    const dispatch = muxer.safeDispatchEvent.bind(muxer)
    muxer.safeDispatchEvent = (type, init?: { detail?: unknown }) => {
      if (type === 'stream') patch(init?.detail as Stream)
      return dispatch(type, init)
    }
    return muxer
  }
  return factory
}

function patch(stream: Stream): void {
  const readable = stream as unknown as Readable
  const unshift = readable.unshift.bind(stream)
  readable.unshift = (data) => {
    if (stream.status === 'open' && readable.readStatus === 'closed') readable.readStatus = 'readable'
    unshift(data)
  }
}
