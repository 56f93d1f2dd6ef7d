/*
 * Upstream: not reported. Seen in @libp2p/yamux 8.0.3 and @libp2p/noise 17.0.3.
 * Goes when: the muxer sends the frames of one turn together. `upstream.test.ts` fails then.
 */

import type { ConnectionEncrypter, MessageStream, SecuredConnection } from '@libp2p/interface'
import { Uint8ArrayList } from 'uint8arraylist'

/**
 * Bytes that wait for the end of a turn. Beyond it the batch leaves at once. One Noise message holds nearly as much.
 */
const BATCH_BYTES_MAX = 64 * 1024
/** Up to this size it is cheaper to copy the pieces of a batch together than to pass them to the system one by one. */
const JOIN_BYTES_MAX = 2 * BATCH_BYTES_MAX

/**
 * Wraps an encrypter. Its connections send everything written in one turn of the event loop as one piece.
 *
 * The muxer writes each frame alone, including a window update of a dozen bytes for every message. Each frame would be
 * encrypted and passed to the system alone, in two pieces. A busy node would spend a third of its time on that.
 */
export function batchingWrites<C>(
  create: (components: C) => ConnectionEncrypter,
): (components: C) => ConnectionEncrypter {
  return (components) => {
    const encrypter = create(components)
    const batching = async (below: MessageStream, securing: Promise<SecuredConnection>): Promise<SecuredConnection> => {
      const secured = await securing
      const flush = batchSends(secured.connection)
      // libp2p closes the connection below, and bytes written earlier must leave first.
      flushOnClose(secured.connection, flush)
      flushOnClose(below, flush)
      return secured
    }
    return {
      protocol: encrypter.protocol,
      secureOutbound: (below, options) => batching(below, encrypter.secureOutbound(joinSends(below), options)),
      secureInbound: (below, options) => batching(below, encrypter.secureInbound(joinSends(below), options)),
    }
  }
}

/** Joins each send into one piece, so that the socket makes one system call for it. */
function joinSends(connection: MessageStream): MessageStream {
  const send = connection.send.bind(connection)
  connection.send = (data) =>
    send(data instanceof Uint8Array || data.byteLength > JOIN_BYTES_MAX ? data : data.subarray())
  return connection
}

/** Makes sends wait for the end of the turn. @returns a function that sends the waiting bytes at once */
function batchSends(connection: MessageStream): () => void {
  const send = connection.send.bind(connection)
  let batch = new Uint8ArrayList()

  /** Returns whether more may be sent. */
  function flush(): boolean {
    if (batch.byteLength === 0) return true
    const data = batch
    batch = new Uint8ArrayList()
    return connection.status === 'open' && send(data)
  }
  function flushAlone(): void {
    try {
      flush()
    } catch (error) {
      // Nobody can catch this error here, but an abort informs all users of the connection.
      connection.abort(error instanceof Error ? error : new Error('the connection could not send'))
    }
  }

  connection.send = (data) => {
    // Let a full or closing connection answer as usual.
    if (connection.writableNeedsDrain || connection.status !== 'open') {
      flush()
      return send(data)
    }
    // A tick requested in a microtask runs after all microtasks. Every answer of this turn is in the batch by then.
    if (batch.byteLength === 0) queueMicrotask(() => process.nextTick(flushAlone))
    batch.append(data)
    return batch.byteLength < BATCH_BYTES_MAX || flush()
  }
  return flushAlone
}

function flushOnClose(connection: MessageStream, flush: () => void): void {
  const close = connection.close.bind(connection)
  connection.close = (options) => {
    flush()
    return close(options)
  }
}
