/*
 * Upstream: not reported. Seen in @libp2p/circuit-relay-v2 4.2.13, which takes messages of 4 MiB with any number of addresses.
 * Goes when: the library bounds the messages of relays, and the addresses of a reservation.
 */

import type { Connection, Stream, StreamMessageEvent } from '@libp2p/interface'

/** The longest message of the relay protocols. An honest one has some hundred bytes. */
const MESSAGE_BYTES_MAX = 8 * 1024
/** Bytes of a length before a message: 4 MiB takes 4. */
const LENGTH_BYTES_MAX = 4
const HOP_PROTOCOL = '/libp2p/circuit/relay/0.2.0/hop'

/**
 * Resets the stream if the first message on it is announced as too long, before a byte of the message is decoded. Call
 * it before the reader listens: listeners are called in order.
 *
 * @param tooLong called before the reset
 */
export function boundFirstMessage(stream: Stream, tooLong: () => void = () => {}): void {
  const length: number[] = []
  const onMessage = (event: StreamMessageEvent) => {
    const { data } = event
    // A list of chunks throws where an array of bytes ends early.
    for (const byte of data.subarray(0, Math.min(data.byteLength, LENGTH_BYTES_MAX - length.length))) {
      length.push(byte)
      if (byte < 0x80) break
    }
    const isWhole = (length.at(-1) ?? 0x80) < 0x80
    if (!isWhole && length.length < LENGTH_BYTES_MAX) return
    stream.removeEventListener('message', onMessage)
    const bytes = length.reduce((sum, byte, at) => sum + (byte & 0x7f) * 128 ** at, 0)
    if (isWhole && bytes <= MESSAGE_BYTES_MAX) return
    event.stopImmediatePropagation()
    tooLong()
    stream.abort(new Error(`a message of a relay has more than ${MESSAGE_BYTES_MAX} bytes`))
  }
  stream.addEventListener('message', onMessage)
}

type Manager = {
  openConnection(...args: never[]): Promise<Connection>
  getConnections(...args: never[]): Connection[]
}

/**
 * The components of a relay transport, with connections on which the first answer of a relay is bounded.
 *
 * @param tooLong called with the peer id of a relay that sent more
 */
export function boundAnswers<C extends object>(components: C, tooLong: (relay: string) => void): C {
  const bounded = (connection: Connection): Connection =>
    replaced(connection, {
      async newStream(protocol, options) {
        const stream = await connection.newStream(protocol, options)
        if (stream.protocol === HOP_PROTOCOL) boundFirstMessage(stream, () => tooLong(connection.remotePeer.toString()))
        return stream
      },
    })
  const { connectionManager: manager } = components as { connectionManager: Manager }
  const connectionManager = replaced(manager, {
    openConnection: async (...args) => bounded(await manager.openConnection(...args)),
    getConnections: (...args) => manager.getConnections(...args).map(bounded),
  })
  return replaced(components, { connectionManager } as unknown as Partial<C>)
}

/** The object with other members. The members that stay are called on the object itself. */
function replaced<T extends object>(object: T, members: Partial<T>): T {
  return new Proxy(object, {
    get(target, name) {
      if (Object.hasOwn(members, name)) return Reflect.get(members, name)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
