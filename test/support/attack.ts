/** Building blocks of attackers: plain libp2p on loopback addresses of their own. */
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
  /** Accepts connections and streams, and sends nothing on them, not even during protocol negotiation. */
  mute?: boolean
}

/** Starts a plain libp2p peer at a chosen loopback address. The peer keeps none of our rules. */
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

/** Starts one of our hosts, which answers ECHO: the target of an attack. */
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
  return await attacker.dial(multiaddr(whereIs(victim, 'tcp').addrs[0]!), { signal: within(60_000) })
}

/** Streams that the peer opens have no listener. */
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

/** Makes an honest peer's calls on a stream to a victim. @returns the p99 of the calls, in ms */
export function honestP99(stream: Stream, calls: number, until?: Promise<unknown>): Promise<number> {
  return p99(() => echo(stream), calls, until)
}

/** Makes one call as an honest peer. */
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
