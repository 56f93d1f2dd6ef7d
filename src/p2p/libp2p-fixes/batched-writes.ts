import type { ConnectionEncrypter, MessageStream, SecuredConnection } from '@libp2p/interface'
import { Uint8ArrayList } from 'uint8arraylist'

/** What waits for the end of a turn at most; beyond it the batch leaves at once. One Noise message holds nearly as much. */
const BATCH_BYTES_MAX = 64 * 1024
/** Up to here it is cheaper to copy the pieces of a batch together than to hand them to the system one by one. */
const JOIN_BYTES_MAX = 2 * BATCH_BYTES_MAX

/**
 * An encrypter whose connections send what was written in one turn of the event loop as one piece.
 *
 * The muxer writes each frame by itself, a dozen bytes of window update for every message included, and each would be
 * encrypted and handed to the system alone, in two pieces. A busy node would spend a third of its time there.
 */
export function batchingWrites<C>(
  create: (components: C) => ConnectionEncrypter,
): (components: C) => ConnectionEncrypter {
  return (components) => {
    const encrypter = create(components)
    const batching = async (below: MessageStream, securing: Promise<SecuredConnection>): Promise<SecuredConnection> => {
      const secured = await securing
      const flush = batchSends(secured.connection)
      // libp2p closes what lies below, and bytes that were written before have to leave before.
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

/** Each send becomes one piece, so that the socket makes one system call of it. */
function joinSends(connection: MessageStream): MessageStream {
  const send = connection.send.bind(connection)
  connection.send = (data) =>
    send(data instanceof Uint8Array || data.byteLength > JOIN_BYTES_MAX ? data : data.subarray())
  return connection
}

/** Sends wait for the end of the turn. @returns how to send what waits at once */
function batchSends(connection: MessageStream): () => void {
  const send = connection.send.bind(connection)
  let batch = new Uint8ArrayList()

  /** Answers whether more may be sent. */
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
      // Nobody is there to catch it, but all who use the connection are told.
      connection.abort(error instanceof Error ? error : new Error('the connection could not send'))
    }
  }

  connection.send = (data) => {
    // A connection that is full or closing answers as it always does.
    if (connection.writableNeedsDrain || connection.status !== 'open') {
      flush()
      return send(data)
    }
    // A tick that is asked for in a microtask comes when all of them are done: every answer of this turn is in by then.
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
