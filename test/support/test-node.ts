import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Devnet } from '../../devnet/devnet.ts'
import { type Config, createConfig } from '../../src/config/config.ts'
import { createSecrets } from '../../src/config/secrets.ts'
import type { Ports, StoaNode } from '../../src/node/api.ts'
import { createNode } from '../../src/node/create-node.ts'
import type { Hex, Network } from '../../src/schema/primitives.ts'
import { engineEnvironment } from './ledger-engine.ts'

export type TestNodeOptions = {
  /** The default is a new directory, which is removed at the end. */
  dataDir?: string
  devnet?: Devnet
  walletKey?: Hex
  apiToken?: string
  /** A model server for agents with `openai-compatible/…`. */
  openaiBaseUrl?: string
  bootstrap?: readonly string[]
  network?: Network
  api?: Partial<Config['api']>
  public?: Partial<Config['public']>
  seller?: Partial<Config['seller']>
  buyer?: Partial<Config['buyer']>
  /** Whether it buys on payment channels. The default is that of every node. */
  channels?: Config['buyer']['channels']['mode']
  openai?: Partial<Config['openai']>
  environment?: Record<string, string>
  webhooks?: Config['webhooks']
  sources?: Config['sources']
  ports?: Partial<Ports>
}

export type TestNode = { node: StoaNode; url: string; publicUrl: string; dataDir: string; stop(): Promise<void> }

/** Starts a whole node in this process, on loopback, with its API on a free port. */
export async function startTestNode(options: TestNodeOptions = {}): Promise<TestNode> {
  const { walletKey, apiToken, openaiBaseUrl, environment = {} } = options
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'stoa-node-')))
  const config = loopbackConfig(dataDir, options)
  const given = {
    ...(walletKey !== undefined && { ETHEREUM_PRIVATE_KEY: walletKey }),
    ...(apiToken !== undefined && { NODE_API_TOKEN: apiToken }),
    ...(openaiBaseUrl !== undefined && { OPENAI_BASE_URL: openaiBaseUrl }),
    ...(await engineEnvironment(dataDir)),
  }
  const secrets = createSecrets(given, environment)
  const node = await createNode(config, secrets, options.ports)
  await node.start()
  return {
    node,
    url: node.apiUrl!,
    publicUrl: node.publicUrl!,
    dataDir,
    async stop() {
      await node.stop()
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** The default configuration, but without requests outside loopback and without log output. */
export function loopbackConfig(dataDir: string, options: Omit<TestNodeOptions, 'dataDir'> = {}): Config {
  const { devnet, api, buyer, channels, seller, openai, webhooks = [], sources = [] } = options
  const settings = {
    dataDir,
    port: 0,
    listenHosts: ['127.0.0.1'],
    bootstrap: [...(options.bootstrap ?? [])],
    ...(options.network !== undefined && { network: options.network }),
    ...(channels !== undefined && { channels }),
    mdns: false,
  }
  const config = createConfig(settings)
  return {
    ...config,
    rpcUrl: devnet?.rpcUrl,
    facilitatorUrl: devnet?.facilitatorUrl,
    api: { ...config.api, port: 0, ...api },
    public: { ...config.public, host: '127.0.0.1', ...options.public },
    buyer: { ...config.buyer, ...buyer },
    seller: { ...config.seller, ...seller },
    openai: { ...config.openai, ...openai },
    webhooks,
    sources,
    log: { level: 'silent' },
  }
}
