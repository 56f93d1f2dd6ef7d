/*
 * Upstream: not reported. Seen in @libp2p/utils 7.4.1.
 * Goes when: `unshift` accepts bytes on a half-closed stream. `upstream.test.ts` fails then.
 */

import type { Stream, StreamMuxerFactory } from '@libp2p/interface'

/** The members of libp2p's streams that are used here but are not in the interface. */
type Readable = { readStatus: string; unshift(data: unknown): void }

/**
 * Lets inbound streams take back bytes that protocol negotiation read too far, even after the other side has ended its
 * side of the stream.
 *
 * Go clients send negotiation, request and half-close together. libp2p's negotiation reads all of it and finds the
 * reading side closed. It throws when it hands the request back, and the stream is reset without an answer.
 */
export function takeBackAfterEnd(factory: StreamMuxerFactory): StreamMuxerFactory {
  const create = factory.createStreamMuxer.bind(factory)
  factory.createStreamMuxer = (connection) => {
    const muxer = create(connection)
    // Do not add a listener here. With a listener, the muxer no longer keeps streams that arrive before the connection
    // is set up.
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
