/*
 * Upstream: not reported. Seen in @chainsafe/libp2p-quic 2.1.1.
 * Goes when: its streams report resets as errors, and `finish_write` ends a stopped stream.
 */

import { type Listener, StreamResetError, type Transport, type Upgrader } from '@libp2p/interface'

/** The parts of the QUIC module's native objects that are used here. */
type NativeStream = {
  read(bytes: number): Promise<Uint8Array | null>
  write(data: Uint8Array): Promise<void>
  finishWrite(): Promise<void>
  resetWrite(): Promise<void>
}
type NativeConnection = { inboundStream(): Promise<NativeStream>; outboundStream(): Promise<NativeStream> }

/**
 * Native errors have no codes. The messages mean that the other side reset its half of a stream, or refuses our half.
 */
const RESET = /reset by peer|stopped by peer/
const STOPPED = /stopped by peer/

/**
 * Makes the streams of a QUIC transport report resets. The module itself reports a reset as a normal end. A buyer that
 * cancels its request would then look like a buyer that has sent everything. It also ends our half of streams that the
 * other side has stopped.
 */
export function tellResets(transport: Transport): Transport {
  const { dial, createListener } = transport
  transport.dial = (address, options) =>
    dial.call(transport, address, { ...options, upgrader: watching(options.upgrader) })
  transport.createListener = (options): Listener =>
    createListener.call(transport, { ...options, upgrader: watching(options.upgrader) })
  return transport
}

function watching(upgrader: Upgrader): Upgrader {
  return new Proxy(upgrader, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name !== 'upgradeInbound' && name !== 'upgradeOutbound') return value.bind(target) as unknown
      return (connection: unknown, options: { muxerFactory?: unknown }) => {
        watchStreams((options.muxerFactory as { init: { connection: NativeConnection } }).init.connection)
        return value.call(target, connection, options) as unknown
      }
    },
  })
}

function watchStreams(connection: NativeConnection): void {
  for (const name of ['inboundStream', 'outboundStream'] as const) {
    const open = connection[name].bind(connection)
    connection[name] = async () => watchStream(await open())
  }
}

function watchStream(stream: NativeStream): NativeStream {
  const read = stream.read.bind(stream)
  const write = stream.write.bind(stream)
  stream.read = (bytes) => read(bytes).catch(toldAsReset)
  stream.write = (data) => write(data).catch(toldAsReset)
  stream.finishWrite = endingStopped(stream, write)
  return stream
}

/**
 * Ends the sending side even after the other side stopped it (STOP_SENDING), as `Close` of go-libp2p does.
 * `finish_write` in `rust/lib.rs` of `@chainsafe/libp2p-quic` drops the result of quinn's `finish`, which then sends
 * neither an end nor a reset. The stream stays open, and counts against the other side's limit, until its object is
 * collected.
 */
function endingStopped(stream: NativeStream, write: NativeStream['write']): NativeStream['finishWrite'] {
  const finish = stream.finishWrite.bind(stream)
  return async () => {
    await finish()
    // This byte is never sent: the side is finished by now, or was stopped. Only the error shows which.
    const stopped = await write(new Uint8Array(1)).then(
      () => false,
      (error: unknown) => error instanceof Error && STOPPED.test(error.message),
    )
    if (stopped) await stream.resetWrite()
  }
}

function toldAsReset(error: unknown): never {
  throw error instanceof Error && RESET.test(error.message) ? new StreamResetError(error.message) : error
}
