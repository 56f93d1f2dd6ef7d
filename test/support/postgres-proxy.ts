import { connect, createServer, type Socket } from 'node:net'

/** A message of PostgreSQL's protocol, as it passes. */
export type PassingMessage = {
  from: 'client' | 'server'
  /** Its first byte, such as `E` for Execute (client) or ErrorResponse (server). Empty: the greeting of a client. */
  type: string
  /** Which connection, counted from 0. */
  connection: number
}

/**
 * What becomes of a message. `cut`: both sides lose the connection before it passes. `leave`: the client alone loses it;
 * what it has sent still reaches the server. `hold`: it waits, with all that follow in its direction, until `release`.
 */
export type Fate = 'pass' | 'cut' | 'leave' | 'hold'

export type PostgresProxy = {
  readonly port: number
  /** Decides about each message from now on. */
  onMessage(decide: (message: PassingMessage) => Fate): void
  /** Lets go what is held. Resolves once a server whose client has gone has taken it, and closed. */
  release(): Promise<void>
  /** Delays each direction from now on. */
  slow(delayMs: number): void
  /** Cuts all connections. */
  cut(): void
  /** Bytes in both directions. */
  bytes(): number
  close(): Promise<void>
}

type Target = { host: string; port: number /** Added to each direction. */; delayMs?: number }

/** A network between a ledger and its database that can be broken at any message. */
export async function startPostgresProxy({ host, port, delayMs = 0 }: Target): Promise<PostgresProxy> {
  let decide: (message: PassingMessage) => Fate = () => 'pass'
  let count = 0
  let bytes = 0
  let delay = delayMs
  const held: (() => Promise<void>)[] = []
  const sockets = new Set<Socket>()

  const server = createServer((client) => {
    const connection = count
    count += 1
    const upstream = connect(port, host)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => sockets.delete(socket))
    }
    /** The server is not told that the client has gone. */
    let isLeft = false
    client.on('close', () => {
      if (!isLeft) upstream.destroy()
    })
    upstream.on('close', () => {
      if (!isLeft) client.destroy()
    })
    const fateOf = (message: PassingMessage) => {
      const fate = decide(message)
      if (fate !== 'pass') isLeft = true
      if (fate === 'leave') client.destroy()
      return fate
    }
    const counted = (size: number) => {
      bytes += size
    }
    const shared = { connection, fateOf, held, counted, delayMs: () => delay }
    forward({ ...shared, from: 'client', source: client, sink: upstream })
    forward({ ...shared, from: 'server', source: upstream, sink: client })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as { port: number }).port,
    onMessage: (chosen) => {
      decide = chosen
    },
    release: async () => void (await Promise.all(held.splice(0).map((go) => go()))),
    slow: (ms) => {
      delay = ms
    },
    cut: () => {
      for (const socket of sockets) socket.destroy()
    },
    bytes: () => bytes,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

type Direction = {
  from: PassingMessage['from']
  connection: number
  source: Socket
  sink: Socket
  fateOf(message: PassingMessage): Fate
  held: (() => Promise<void>)[]
  counted(size: number): void
  delayMs(): number
}

function forward({ from, connection, source, sink, fateOf, held, counted, delayMs }: Direction): void {
  let rest = Buffer.alloc(0)
  let isGreeted = from === 'server'
  /** What waits behind a message that is held. */
  let waiting: Buffer[] | undefined
  const send = (bytes: Buffer) => {
    counted(bytes.length)
    const ms = delayMs()
    if (ms === 0 || from === 'client') sink.write(bytes)
    else setTimeout(() => sink.destroyed || sink.write(bytes), ms)
  }
  source.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    const ready: Buffer[] = []
    for (;;) {
      const head = isGreeted ? 1 : 0
      if (rest.length < head + 4) break
      const length = head + rest.readInt32BE(head)
      if (rest.length < length) break
      const message = rest.subarray(0, length)
      rest = rest.subarray(length)
      const type = isGreeted ? String.fromCharCode(message[0]!) : ''
      isGreeted = true
      if (waiting !== undefined) {
        waiting.push(message)
        continue
      }
      const fate = fateOf({ from, type, connection })
      if (fate === 'cut') {
        // What passed before has passed: the other side reads it, and then the end.
        for (const each of ready) sink.write(each)
        sink.end()
        source.destroy()
        return
      }
      if (fate === 'hold') {
        waiting = [message]
        held.push(async () => {
          for (const each of waiting ?? []) sink.write(each)
          waiting = undefined
          if (!source.destroyed || sink.destroyed) return
          const closed = new Promise((resolve) => sink.once('close', resolve))
          sink.end()
          await closed
        })
      } else ready.push(message)
    }
    if (ready.length > 0) send(Buffer.concat(ready))
  })
}
