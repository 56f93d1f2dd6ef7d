import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Devnet } from '../../devnet/devnet.ts'
import type { Config } from '../../src/config/config.ts'
import { createSecrets } from '../../src/config/secrets.ts'
import { createNode } from '../../src/node.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import type { Ports, StoaNode } from '../../src/stoa-node.ts'

export type TestNodeOptions = {
  /** A new one, which is removed at the end, unless given. */
  dataDir?: string
  devnet?: Devnet
  walletKey?: Hex
  bootstrap?: readonly string[]
  api?: Partial<Config['api']>
  seller?: Partial<Config['seller']>
  buyer?: Partial<Config['buyer']>
  environment?: Record<string, string>
  webhooks?: Config['webhooks']
  ports?: Partial<Ports>
}

export type TestNode = { node: StoaNode; url: string; dataDir: string; stop(): Promise<void> }

/** A whole node in this process, on loopback, with its API on a free port. */
export async function startTestNode(options: TestNodeOptions = {}): Promise<TestNode> {
  const { devnet, walletKey, environment = {} } = options
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'stoa-node-')))
  const config: Config = {
    dataDir,
    network: 'eip155:84532',
    rpcUrl: devnet?.rpcUrl,
    facilitatorUrl: devnet?.facilitatorUrl,
    p2p: {
      port: 0,
      listenHosts: ['127.0.0.1'],
      bootstrap: [...(options.bootstrap ?? [])],
      announce: [],
      mdns: false,
      relays: [],
      relay: false,
      upnp: false,
      publicDht: false,
    },
    api: {
      host: '127.0.0.1',
      port: 0,
      corsOrigins: [],
      allowedHosts: [],
      insecureOpen: false,
      requireToken: false,
      enabled: true,
      ...options.api,
    },
    buyer: { maxPriceAtomic: 1_000_000n, dailyBudgetAtomic: 5_000_000n, ...options.buyer },
    seller: {
      settleFirst: false,
      keepListed: false,
      concurrentRunsMax: 16,
      peerRequestsPerSecond: 1_000,
      ...options.seller,
    },
    ...(options.webhooks && { webhooks: options.webhooks }),
    log: { level: 'silent' },
  }
  const secrets = createSecrets(walletKey === undefined ? {} : { ETHEREUM_PRIVATE_KEY: walletKey }, environment)
  const node = await createNode(config, secrets, options.ports)
  await node.start()
  return {
    node,
    url: node.apiUrl!,
    dataDir,
    async stop() {
      await node.stop()
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true })
    },
  }
}
