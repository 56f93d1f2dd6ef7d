/** What attackers are made of: libp2p as it comes, at loopback addresses of their own. */
import { identify } from '@libp2p/identify'
import type { PrivateKey, Stream } from '@libp2p/interface'
import { noise } from '@libp2p/noise'
import { ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p, type Libp2p } from 'libp2p'
import type { Host } from '../../src/p2p/host.ts'
import { startTestHost, type TestHostOptions, whereIs } from './test-host.ts'

export const ECHO = '/test/echo/1.0.0'
const HICCUP_MS = 50
export const within = (ms: number) => AbortSignal.timeout(ms)

/** A bare peer at a loopback address of its choice, which keeps no rule of ours. */
export async function startAttacker(
  ip: string,
  {
    privateKey,
    services = {},
  }: { privateKey?: PrivateKey; services?: Record<string, (components: never) => unknown> } = {},
): Promise<Libp2p> {
  return (await createLibp2p({
    ...(privateKey !== undefined && { privateKey }),
    addresses: { listen: [`/ip4/${ip}/tcp/0`] },
    transports: [tcp({ dialOpts: { localAddress: ip } as object })],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    connectionManager: { inboundConnectionThreshold: 1000, maxIncomingPendingConnections: 1000 },
    connectionMonitor: { enabled: false },
    connectionGater: { denyDialMultiaddr: () => false },
    services: { identify: identify(), ping: ping(), ...(services as object) },
  })) as Libp2p
}

/** A host of ours that answers ECHO: the one attacked. */
export async function startVictim(options?: TestHostOptions): Promise<Host> {
  const host = await startTestHost(options)
  await host.handle(ECHO, (stream) => {
    stream.addEventListener('message', (event) => stream.send(event.data))
    stream.addEventListener('remoteCloseWrite', () => void stream.close().catch(() => {}))
  })
  return host
}

export async function attack(attacker: Libp2p, victim: Host): Promise<Awaited<ReturnType<Libp2p['dial']>>> {
  return await attacker.dial(multiaddr(whereIs(victim, 'tcp').addrs[0]!), { signal: within(10_000) })
}

/** An honest peer's calls. @returns what the slowest of a hundred took, in ms */
export async function honestP99(stream: Stream, calls: number, until?: Promise<unknown>): Promise<number> {
  const times: number[] = []
  let over = until === undefined
  void until?.finally(() => {
    over = true
  })
  for (let call = 0; call < calls || !over; call++) {
    const began = performance.now()
    await answer(stream)
    times.push(performance.now() - began)
  }
  times.sort((a, b) => a - b)
  return times[Math.floor(times.length * 0.99)]!
}

/** A call beside an attack may take three times as long as without; less than a machine's own hiccups is not looked at. */
export function bearable(quietMs: number): number {
  return 3 * Math.max(quietMs, HICCUP_MS)
}

async function answer(stream: Stream): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onMessage = () => resolve()
  const onClose = () => reject(new Error('the honest stream was closed'))
  stream.addEventListener('message', onMessage, { once: true })
  stream.addEventListener('close', onClose, { once: true })
  stream.send(new Uint8Array(100))
  await promise
  stream.removeEventListener('close', onClose)
}
