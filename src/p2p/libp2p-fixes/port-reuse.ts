/*
 * Upstream: https://github.com/libp2p/js-libp2p/issues/2620 (open). Seen in @libp2p/tcp 11.0.28.
 * Goes when: the TCP transport dials from its listening port.
 */

import net, { type Server, type Socket } from 'node:net'
import type { Transport } from '@libp2p/interface'
import { isPrivate } from '@libp2p/utils'
import type { Multiaddr } from '@multiformats/multiaddr'

/**
 * Dials from the port that this node listens on. The path that a router opens for the dial then leads back to the
 * listener, and peers see an address that they can dial. Node has no API for this, so `tryPortReuse` tests whether it
 * works. If it does not work, dials come from any port and no holes are punched.
 */
export type PortReuse = {
  port: number
  Handle: HandleClass
  /** `host:port` of the addresses dialed in this way. */
  dialed: Set<string>
}

type Handle = { bind(address: string, port: number, flags: number): number; close(): void }
type HandleClass = new (kind: number) => Handle
type TcpTransport = Transport & { _connect(address: Multiaddr, options: { signal: AbortSignal }): Promise<Socket> }

const TCP_SOCKET = 0
const UV_TCP_REUSEPORT = 2
const DIALED_MAX = 1000
/** The same two ends are already connected, or the port is held without being shared. */
const TAKEN = ['EADDRINUSE', 'EADDRNOTAVAIL']

/** Undefined if the platform cannot do it, or if another program holds the port. Listening then reports the error. */
export async function tryPortReuse(port: number): Promise<PortReuse | undefined> {
  if (port === 0 || !(await isFree(port))) return undefined
  const server = net.createServer()
  try {
    await listening(server, { host: '127.0.0.1', port: 0, reusePort: true })
    const { _handle: own } = server as Server & { _handle: Handle }
    const Handle = own.constructor as HandleClass
    const handle = new Handle(TCP_SOCKET)
    const failed = handle.bind('127.0.0.1', (server.address() as net.AddressInfo).port, UV_TCP_REUSEPORT)
    handle.close()
    return failed === 0 ? { port, Handle, dialed: new Set() } : undefined
  } catch {
    return undefined
  } finally {
    server.close()
  }
}

/** Makes a TCP transport dial public addresses from the port, if that is possible. */
export function dialFromPort(transport: Transport, reuse: PortReuse): Transport {
  const tcp = transport as TcpTransport
  const connect = tcp._connect.bind(tcp)
  tcp._connect = async (address, options) => {
    const [host, port] = address.getComponents()
    if (host?.name !== 'ip4' || host.value === undefined || isPrivate(address)) return await connect(address, options)
    try {
      const socket = await connectFrom(reuse, { host: host.value, port: Number(port?.value) }, options.signal)
      if (reuse.dialed.size < DIALED_MAX) reuse.dialed.add(`${host.value}:${port?.value}`)
      return socket
    } catch (error) {
      if (!TAKEN.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      reuse.dialed.delete(`${host.value}:${port?.value}`)
      return await connect(address, options)
    }
  }
  return tcp
}

async function connectFrom(
  { port, Handle }: PortReuse,
  remote: { host: string; port: number },
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted()
  const handle = new Handle(TCP_SOCKET)
  if (handle.bind('0.0.0.0', port, UV_TCP_REUSEPORT) !== 0) {
    handle.close()
    throw Object.assign(new Error('the port cannot be shared'), { code: 'EADDRINUSE' })
  }
  const socket = new net.Socket({ handle, manualStart: true } as unknown as net.SocketConstructorOpts)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onAbort = () => reject(signal.reason)
  socket.once('connect', resolve).once('error', reject)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    socket.connect(remote)
    await promise
    socket.off('error', reject).setNoDelay(true).setKeepAlive(true)
    return socket
  } catch (error) {
    socket.on('error', () => {}).destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/**
 * True if no program holds the port. Two programs that share their ports could hold the same port, and each would get
 * half of the connections.
 */
export async function isFree(port: number): Promise<boolean> {
  const server = net.createServer()
  try {
    await listening(server, { host: '0.0.0.0', port, exclusive: true })
    return true
  } catch {
    return false
  } finally {
    server.close()
  }
}

async function listening(server: Server, options: net.ListenOptions): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('listening', resolve).once('error', reject)
  server.listen(options)
  await promise
}
