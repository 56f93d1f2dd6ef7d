import { type Listener, StreamResetError, type Transport, type Upgrader } from '@libp2p/interface'

/** What the QUIC module gets from its native code, as far as it is used here. */
type NativeStream = {
  read(bytes: number): Promise<Uint8Array | null>
  write(data: Uint8Array): Promise<void>
  finishWrite(): Promise<void>
  resetWrite(): Promise<void>
}
type NativeConnection = { inboundStream(): Promise<NativeStream>; outboundStream(): Promise<NativeStream> }

/** Its errors have no code of their own: the other side has reset its half of a stream, or wants none of ours. */
const RESET = /reset by peer|stopped by peer/
const STOPPED = /stopped by peer/

/**
 * A QUIC transport whose streams tell that the other side has reset them. By itself the module takes a reset for a proper
 * end, and a buyer that takes its request back could not be told from one that has said all. And streams whose other side
 * wants no more are ended for it as well.
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
 * Ends the sending side also where the other side has said that it wants no more (STOP_SENDING), as `Close` of go-libp2p
 * does. `finish_write` in `rust/lib.rs` of `@chainsafe/libp2p-quic` drops the answer of quinn's `finish`, which then sends
 * neither end nor reset: the stream stays open, and counts against the other side's, until its object is collected. Goes
 * when `finish_write` resets what was stopped, or tells of it.
 */
function endingStopped(stream: NativeStream, write: NativeStream['write']): NativeStream['finishWrite'] {
  const finish = stream.finishWrite.bind(stream)
  return async () => {
    await finish()
    // Never sent: the side is finished by now, unless it was stopped. Only the error tells which.
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
