import { MemoryDatastore } from 'datastore-core/memory'
import type { Datastore } from 'interface-datastore'
import { systemClock } from '../../src/lib/clock.ts'
import { type Logger, silentLogger } from '../../src/lib/logger.ts'
import { createHost, type Host, type HostDeps, type HostOptions } from '../../src/p2p/host.ts'
import { createIdentity, type Identity } from '../../src/p2p/identity.ts'

export type TestHostOptions = Partial<HostOptions & Pick<HostDeps, 'directory' | 'otherPeerId'>> & {
  identity?: Identity
  datastore?: Datastore
  logger?: Logger
}

/** Times for retries, pings and peer discovery, short enough for tests. */
const timing: NonNullable<HostOptions['timing']> = {
  retry: { firstMs: 20, mostMs: 100 },
  dialGapMs: 0,
  rejoinEveryMs: 100,
  pingEveryMs: 100,
  pingTimeoutMs: 2000,
  lookEveryMs: 10,
  beatEveryMs: 100,
  relayLookMs: 10,
  meetEveryMs: 100,
  relayAfterMs: 0,
  relayRetry: { firstMs: 20, mostMs: 100 },
}

/** A host on loopback: free ports, no mDNS, peers kept in memory. It is not started. */
export async function createTestHost(options: TestHostOptions = {}): Promise<Host> {
  const {
    identity = await createIdentity(),
    datastore = new MemoryDatastore(),
    logger = silentLogger,
    directory,
    otherPeerId,
    ...rest
  } = options
  const other = { ...(directory && { directory }), ...(otherPeerId && { otherPeerId }) }
  return await createHost(
    {
      port: 0,
      listenHosts: ['127.0.0.1'],
      bootstrap: [],
      announce: [],
      mdns: false,
      version: '0.0.0-test',
      ...rest,
      timing: { ...timing, ...rest.timing },
    },
    { identity, datastore, clock: systemClock, logger, ...other },
  )
}

/** A started host on loopback. */
export async function startTestHost(options: TestHostOptions = {}): Promise<Host> {
  const host = await createTestHost(options)
  await host.start()
  return host
}

/** The address data that another host needs to reach this host. */
export function whereIs(host: Host, transport?: 'tcp' | 'quic-v1'): { peerId: string; addrs: string[] } {
  const addrs = host.addresses().filter((address) => transport === undefined || address.includes(`/${transport}`))
  return { peerId: host.peerId, addrs }
}
