import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { createConfig } from '../../src/config/config.ts'
import { createSecrets } from '../../src/config/secrets.ts'
import type { Settings } from '../../src/config/settings.ts'
import type { Ports, StoaNode } from '../../src/node/api.ts'
import { createNode } from '../../src/node/create-node.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { engineEnvironment } from './ledger-engine.ts'
import { createTestDatabase, type TestDatabase } from './test-postgres.ts'
import { until } from './until.ts'

export type TestNodeOptions = Settings & {
  key: Hex
  ports?: Partial<Ports>
  /** A ledger in PostgreSQL, whatever engine the other tests use. */
  databaseUrl?: string
}
export type TestNode = StoaNode & { readonly dataDir: string }

const nodes = new Set<TestNode>()
const dirs: string[] = []

/** A new directory for the test. `stopTestNodes` removes it. */
export async function testDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-test-'))
  dirs.push(dir)
  return dir
}

/** Starts a whole node in this process with `createNode`: on loopback, free ports, no API, its own directory. */
export async function startTestNode({ key, ports, databaseUrl, ...settings }: TestNodeOptions): Promise<TestNode> {
  const dataDir = settings.dataDir ?? (await testDir())
  const config = createConfig({
    port: 0,
    listenHosts: ['127.0.0.1'],
    mdns: false,
    apiEnabled: false,
    apiPort: 0,
    ...settings,
    dataDir,
  })
  const engine = databaseUrl === undefined ? await engineEnvironment(dataDir) : { DATABASE_URL: databaseUrl }
  const environment = { ETHEREUM_PRIVATE_KEY: key, ...engine }
  const node = await createNode(config, createSecrets(environment, environment), ports)
  await node.start()
  const stop = node.stop.bind(node)
  const running: TestNode = Object.assign(node, {
    dataDir,
    stop: async () => {
      if (nodes.delete(running)) await stop()
    },
  })
  nodes.add(running)
  return running
}

/** Stops every running node and removes every directory. */
export async function stopTestNodes(): Promise<void> {
  await Promise.allSettled([...nodes].map((node) => node.stop()))
  await Promise.all(dirs.splice(0).map((dir) => rm(dir, { recursive: true, force: true })))
}

/** A database for the nodes of a test. They are stopped before it is dropped: a node that stops waits for its database. */
export async function databaseOfNodes(): Promise<TestDatabase> {
  const database = await createTestDatabase()
  onTestFinished(async () => {
    await stopTestNodes()
    await database.drop()
  })
  return database
}

/** Waits until a node knows a seller's agent. */
export function discover(
  buyer: Pick<StoaNode, 'listings'>,
  seller: string,
  name: string,
  options: { timeoutMs?: number } = {},
): Promise<Listing> {
  return until(() => buyer.listings().find((listing) => listing.seller_id === seller && listing.name === name), options)
}
