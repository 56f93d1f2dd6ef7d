import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'

/**
 * `cut`: the link has no connections and accepts none. `silent`: connections stay open and carry no data. `slow`: each
 * chunk is delayed.
 */
export type LinkState = 'pass' | 'cut' | 'silent' | 'slow'

export type Link = {
  readonly port: number
  set(state: LinkState): void
  stop(): Promise<void>
}

const SLOW_MS = 150

/** A TCP proxy in front of a port of this machine. */
export async function startLink(targetPort: number): Promise<Link> {
  let state: LinkState = 'pass'
  const sockets = new Set<Socket>()
  const keep = (socket: Socket, other: Socket) => {
    sockets.add(socket)
    socket.on('error', () => other.destroy())
    socket.on('close', () => {
      sockets.delete(socket)
      other.destroy()
    })
    socket.on('data', (chunk: Buffer) => {
      socket.pause()
      pass(socket, other, chunk)
    })
    socket.on('end', () => other.end())
  }
  /** Holds chunks until the link passes data again, and keeps their order. */
  function pass(from: Socket, to: Socket, chunk: Buffer): void {
    if (from.destroyed || to.destroyed) return
    if (state === 'silent') {
      setTimeout(pass, 50, from, to, chunk).unref()
      return
    }
    const send = () => to.write(chunk, () => from.resume())
    if (state === 'slow') setTimeout(send, SLOW_MS).unref()
    else send()
  }
  const server = createServer({ allowHalfOpen: true }, (near) => {
    if (state === 'cut') {
      near.destroy()
      return
    }
    const far = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true })
    keep(near, far)
    keep(far, near)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    set(next) {
      state = next
      if (next === 'cut') for (const socket of sockets) socket.destroy()
    },
    stop: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}
