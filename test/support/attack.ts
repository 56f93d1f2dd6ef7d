/** What attackers are made of: libp2p as it comes, at loopback addresses of their own. */
import { identify } from '@libp2p/identify'
import type { PrivateKey, Stream, StreamMuxerFactory } from '@libp2p/interface'
import { noise } from '@libp2p/noise'
import { ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import type { Host } from '../../src/p2p/host.ts'
import { p99 } from './honest-calls.ts'
import { startTestHost, type TestHostOptions, whereIs } from './test-host.ts'

export const ECHO = '/test/echo/1.0.0'
export const within = (ms: number) => AbortSignal.timeout(ms)

type AttackerOptions = {
  privateKey?: PrivateKey
  services?: Record<string, (components: never) => unknown>
  /** Takes connections and streams, and says nothing on them, not even which protocol it speaks. */
  mute?: boolean
}

/** A bare peer at a loopback address of its choice, which keeps no rule of ours. */
export async function startAttacker(
  ip: string,
  { privateKey, services = {}, mute = false }: AttackerOptions = {},
): Promise<Libp2p> {
  return (await createLibp2p({
    ...(privateKey !== undefined && { privateKey }),
    addresses: { listen: [`/ip4/${ip}/tcp/0`] },
    transports: [tcp({ dialOpts: { localAddress: ip } as object })],
    connectionEncrypters: [noise()],
    streamMuxers: [() => (mute ? muted(yamux()()) : yamux()())],
    connectionManager: { inboundConnectionThreshold: 1000, maxIncomingPendingConnections: 1000 },
    connectionMonitor: { enabled: false },
    connectionGater: { denyDialMultiaddr: () => false },
    services: { identify: identify(), ping: ping(), ...(services as object) },
  })) as Libp2p
}

/** A host of ours that answers ECHO: the one attacked. */
export async function startVictim(options?: TestHostOptions): Promise<Host> {
  const host = await startTestHost(options)
  await serveEcho(host)
  return host
}

export async function serveEcho(host: Host): Promise<void> {
  await host.handle(ECHO, (stream) => {
    stream.addEventListener('message', (event) => stream.send(event.data))
    stream.addEventListener('remoteCloseWrite', () => void stream.close().catch(() => {}))
  })
}

export async function attack(attacker: Libp2p, victim: Host): Promise<Awaited<ReturnType<Libp2p['dial']>>> {
  return await attacker.dial(multiaddr(whereIs(victim, 'tcp').addrs[0]!), { signal: within(10_000) })
}

/** Nobody listens for what is opened. */
function muted(factory: StreamMuxerFactory): StreamMuxerFactory {
  return {
    protocol: factory.protocol,
    createStreamMuxer(connection) {
      const muxer = factory.createStreamMuxer(connection)
      const listen = muxer.addEventListener.bind(muxer) as (type: string, ...more: unknown[]) => void
      const quietly = (type: string, listener: unknown, ...more: unknown[]) =>
        listen(type, type === 'stream' ? () => {} : listener, ...more)
      return Object.assign(muxer, { addEventListener: quietly as typeof muxer.addEventListener })
    },
  }
}

/** An honest peer's calls on a stream to a victim. @returns what the slowest of a hundred took, in ms */
export function honestP99(stream: Stream, calls: number, until?: Promise<unknown>): Promise<number> {
  return p99(() => echo(stream), calls, until)
}

/** One call of an honest peer. */
export async function echo(stream: Stream): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onMessage = () => resolve()
  const onClose = () => reject(new Error('the honest stream was closed'))
  stream.addEventListener('message', onMessage, { once: true })
  stream.addEventListener('close', onClose, { once: true })
  stream.send(new Uint8Array(100))
  await promise
  stream.removeEventListener('close', onClose)
}
