import type { Connection, Stream } from '@libp2p/interface'
import { reasonOf } from '../lib/errors.ts'
import { orAborted } from '../lib/wait.ts'

/** Streams of one protocol with one peer: enough for a busy buyer, and one peer cannot fill the memory. */
export const STREAMS_PER_PROTOCOL_MAX = 256
/** Errors of a connection that is about to close and still has the status `open`. */
const CLOSING = ['ConnectionClosedError', 'ConnectionClosingError', 'MuxerClosedError']
/** This node's own limit, not the peer's answer: another process of the peer need not be asked. */
const OWN_LIMIT = 'TooManyOutboundProtocolStreamsError'
/** Of a process that does not speak the protocol: one that starts or stops, or another version of the node. */
const UNSPOKEN = 'UnsupportedProtocolError'

/** The process at the other end of a live connection did not open the stream, or ended it at once. Nothing was sent. */
export class StreamRefused extends Error {
  override name = 'StreamRefused'

  readonly connection: Connection
  /** True if the process does not speak the protocol. */
  readonly isUnspoken: boolean

  constructor(connection: Connection, reason: string, cause?: unknown) {
    super(reason, { cause })
    this.connection = connection
    this.isUnspoken = nameOf(cause) === UNSPOKEN
  }
}

/** @throws StreamRefused, the error of the connection, the signal's reason */
export async function newStream(connection: Connection, protocol: string, signal: AbortSignal): Promise<Stream> {
  const limits = { maxOutboundStreams: STREAMS_PER_PROTOCOL_MAX, runOnLimitedConnection: true }
  const opening = connection.newStream(protocol, { signal, ...limits })
  // QUIC waits for a free stream and ignores the signal. Close a stream that opens too late.
  const stream = await orAborted(opening, signal, (late) => late.abort(new Error('too late'))).catch((error) => {
    const isRefused = !signal.aborted && !isClosing(connection, error) && nameOf(error) !== OWN_LIMIT
    if (!isRefused) throw error
    throw new StreamRefused(connection, reasonOf(error), error)
  })
  // A process with too many streams first agrees on the protocol and then resets. libp2p returns the dead stream.
  if (stream.status !== 'open') throw new StreamRefused(connection, 'the peer closed the stream at once')
  return stream
}

/** True if the connection is closed, or about to close. */
export function isClosing(connection: Connection, error: unknown): boolean {
  return connection.status !== 'open' || CLOSING.includes(nameOf(error))
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : ''
}
