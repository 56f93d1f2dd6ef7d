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
 * encrypted and handed to the system alone, in two pieces. A busy node spends a third of its time there.
 */
export function batchingWrites<C>(
  create: (components: C) => ConnectionEncrypter,
): (components: C) => ConnectionEncrypter {
  return (components) => {
    const inner = create(components)
    const secured = async (securing: Promise<SecuredConnection>): Promise<SecuredConnection> => {
      const done = await securing
      batchSends(done.connection)
      return done
    }
    return {
      protocol: inner.protocol,
      secureOutbound: (connection, options) => secured(inner.secureOutbound(joiningSends(connection), options)),
      secureInbound: (connection, options) => secured(inner.secureInbound(joiningSends(connection), options)),
    }
  }
}

/** Each send becomes one piece, so that the socket makes one system call of it. */
function joiningSends(connection: MessageStream): MessageStream {
  const send = connection.send.bind(connection)
  connection.send = (data) =>
    send(data instanceof Uint8Array || data.byteLength > JOIN_BYTES_MAX ? data : data.subarray())
  return connection
}

function batchSends(connection: MessageStream): void {
  const send = connection.send.bind(connection)
  const close = connection.close.bind(connection)
  let batch = new Uint8ArrayList()

  /** Answers whether more may be sent. What it throws has broken the connection, which knows it by then. */
  function flush(): boolean {
    if (batch.byteLength === 0) return true
    const data = batch
    batch = new Uint8ArrayList()
    return connection.writeStatus === 'writable' && send(data)
  }
  function flushAtEndOfTurn(): void {
    try {
      flush()
    } catch (error) {
      connection.abort(error instanceof Error ? error : new Error('the connection could not send'))
    }
  }

  connection.send = (data) => {
    // A connection that is full or closing answers as it always does.
    if (connection.writableNeedsDrain || connection.writeStatus !== 'writable') {
      flush()
      return send(data)
    }
    // A tick that is asked for in a microtask comes when all of them are done: every answer of this turn is in by then.
    if (batch.byteLength === 0) queueMicrotask(() => process.nextTick(flushAtEndOfTurn))
    batch.append(data)
    return batch.byteLength < BATCH_BYTES_MAX || flush()
  }
  connection.close = (options) => {
    flushAtEndOfTurn()
    return close(options)
  }
}
