import { randomInt } from 'node:crypto'
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect as connectTo, createServer, type Server, type Socket } from 'node:net'

/** Takes a TCP port of this machine until the server stops. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on TCP')
  return address.port
}

/** The TCP address on IPv4 loopback among the addresses of a node. It is there in every test. */
export function localAddress(addresses: readonly string[]): string {
  const found = addresses.find((address) => address.startsWith('/ip4/127.0.0.1/tcp/'))
  if (found === undefined) throw new Error(`no TCP address on loopback among ${addresses.join(', ') || 'no addresses'}`)
  return found
}

/** First port of a range below the ephemeral ports, which the system gives to other tests and outgoing connections. */
const FREE_FROM = 20_000
const FREE_TO = 32_000

/** Ports that this process was given: who asked for one may not listen on it yet. */
const given = new Set<number>()

/** A port that was free a moment ago for TCP and UDP, outside the range that the system assigns. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FREE_FROM, FREE_TO)
    if (given.has(port)) continue
    given.add(port)
    if ((await isFree(createServer(), port)) && (await isFree(createSocket('udp4'), port))) return port
  }
}

async function isFree(socket: Server | UdpSocket, port: number): Promise<boolean> {
  try {
    if ('bind' in socket) socket.bind(port, '127.0.0.1')
    else socket.listen(port, '127.0.0.1')
    await once(socket, 'listening')
    await new Promise<void>((resolve) => void socket.close(() => resolve()))
    return true
  } catch {
    return false
  }
}

/** Forwards TCP connections to another port until it is frozen. Then no data moves, and neither side is notified. */
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
