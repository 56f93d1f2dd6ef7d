import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Devnet } from '../../devnet/devnet.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { ask } from './api-calls.ts'
import { freePort } from './loopback.ts'
import { testDir } from './loopback-node.ts'
import { type NodeProcess, startNodeProcess } from './node-process.ts'
import { createTestDatabase } from './test-postgres.ts'

/** What all processes of the seller say of their address, whatever their ports. */
const PUBLIC_URL = 'http://seller.example:8425'

type PublicProcess = NodeProcess & {
  /** Where this process sells an agent. */
  at(name: string): string
}

/**
 * A seller with a public listener, whose processes can be killed. Its agents note each run, by its task, in one file:
 * `repeat` gives its task after 0.3 s, `fail` fails.
 *
 * @param options.environment of all its processes, such as its database
 * @param options.channels whether it takes payment channels
 */
export async function openPublicSeller(
  devnet: Devnet,
  { environment = {}, channels = 'off' }: { environment?: Record<string, string>; channels?: 'off' | 'auto' } = {},
) {
  const key = generatePrivateKey()
  const payee: Hex = privateKeyToAccount(key).address
  const home = await testDir()
  const runs = join(home, 'runs')
  await loadOrCreateIdentity(join(home, 'identity.key'))
  const agent = (name: string, end: string) => ({
    ...{ name, description: `${name}s what it is given`, price: 0.01 },
    command: ['/bin/sh', '-c', `task=$(cat); echo "$task" >> "$0"; ${end}`, runs],
  })
  const agents = [agent('repeat', 'sleep 0.3; printf %s "$task"'), agent('fail', 'exit 1')]

  /** @param dir the directory of a second process; default: that of the first one */
  async function start(
    options: { faultPoint?: string; armsLater?: boolean; dir?: string; args?: readonly string[] } = {},
  ): Promise<PublicProcess> {
    const { faultPoint, armsLater = false, dir = home, args = [] } = options
    if (dir !== home) await copyFile(join(home, 'identity.key'), join(dir, 'identity.key'))
    await writeFile(join(dir, 'agents.yaml'), JSON.stringify({ agents }))
    await writeFile(join(dir, 'config.yaml'), `seller: {channels: ${channels}}\n`, { mode: 0o600 })
    const port = await freePort()
    const node = await startNodeProcess({
      ...{ faultPoint, armsLater },
      args: ['--data-dir', dir, ...args],
      environment: {
        ...{ ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl, ETHEREUM_PRIVATE_KEY: key },
        ...{ NODE_PUBLIC_HOST: '127.0.0.1', NODE_PUBLIC_PORT: String(port), NODE_PUBLIC_LISTENER_URL: PUBLIC_URL },
        ...environment,
      },
    })
    const listed = await ask<Listing[]>(node.ready.api_url, '/agents')
    const ids = new Map(listed.map(({ name, id }) => [name, id]))
    return { ...node, at: (name) => `http://127.0.0.1:${port}/x402/${ids.get(name)}` }
  }

  /** The tasks that were run, in order. */
  async function ran(): Promise<string[]> {
    return (await readFile(runs, 'utf8').catch(() => '')).split('\n').filter(Boolean)
  }

  return {
    start,
    ran,
    /** How often a task was run. */
    runsOf: async (task: string) => (await ran()).filter((run) => run === task).length,
    earned: () => devnet.chain.balanceOf(payee),
  }
}

/** Two processes of such a seller, on one ledger in PostgreSQL. */
export async function startPublicFleet(devnet: Devnet, options: { channels?: 'off' | 'auto' } = {}) {
  const database = await createTestDatabase()
  const environment = { DATABASE_URL: database.address() }
  const seller = await openPublicSeller(devnet, { environment, ...options })
  const processes = await Promise.all([seller.start(), seller.start({ dir: await testDir() })])
  return { ...seller, processes, drop: () => database.drop() }
}
