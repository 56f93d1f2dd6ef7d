import { connect as connectTo, createServer, type Server, type Socket } from 'node:net'

/** A TCP port of this machine, taken for as long as the server runs. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on TCP')
  return address.port
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listen(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Passes TCP connections on to another port, until it is frozen: then nothing moves and nobody is told. */
export class FreezableProxy {
  readonly #sockets: Socket[] = []
  readonly #server: Server
  #frozen = false
  port = 0

  constructor(targetPort: number) {
    this.#server = createServer((near) => {
      this.#sockets.push(near)
      near.on('error', () => {})
      if (this.#frozen) return
      const far = connectTo(targetPort, '127.0.0.1')
      this.#sockets.push(far)
      far.on('error', () => {})
      near.on('data', (bytes) => this.#frozen || far.write(bytes))
      far.on('data', (bytes) => this.#frozen || near.write(bytes))
      near.on('close', () => this.#frozen || far.destroy())
      far.on('close', () => this.#frozen || near.destroy())
    })
  }

  async start(): Promise<void> {
    this.port = await listen(this.#server)
  }

  freeze(): void {
    this.#frozen = true
  }

  stop(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}
