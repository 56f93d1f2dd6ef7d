import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { onTestFinished } from 'vitest'
import type { Devnet } from '../../devnet/devnet.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { localAddress } from './loopback.ts'
import { type TestNode, testDir } from './loopback-node.ts'
import { type NodeProcess, startNodeProcess } from './node-process.ts'
import { createTestDatabase } from './test-postgres.ts'

type ProcessName = 'a' | 'b'
export type SellerProcesses = {
  /** The peer id of the seller. */
  seller: string
  account: Hex
  /** The URL of the ledger. */
  address: string
  /** A directory for what runs leave behind. */
  marks: string
  start(name: ProcessName): Promise<NodeProcess>
}

/**
 * Two processes of one seller on one ledger in PostgreSQL, each with a data directory of its own. The test starts them,
 * and ends them with `killNodeProcesses`.
 *
 * @param agents the entries of the agents.yaml of a process
 * @param buyer the node that they meet
 */
export async function openSellerProcesses(
  agents: (name: ProcessName, marks: string) => readonly object[],
  { devnet, buyer }: { devnet: Devnet; buyer?: TestNode },
): Promise<SellerProcesses> {
  const key = generatePrivateKey()
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const marks = await testDir()
  const dirs = { a: await testDir(), b: await testDir() }
  const { peerId } = await loadOrCreateIdentity(join(dirs.a, 'identity.key'))
  await copyFile(join(dirs.a, 'identity.key'), join(dirs.b, 'identity.key'))
  const bootstrap = buyer && localAddress(buyer.addresses())
  return {
    ...{ seller: peerId, account: privateKeyToAccount(key).address, address: database.address(), marks },
    async start(name) {
      // JSON is YAML.
      await writeFile(join(dirs[name], 'agents.yaml'), JSON.stringify({ agents: agents(name, marks) }))
      return startNodeProcess({
        args: ['--data-dir', dirs[name], ...(bootstrap === undefined ? [] : ['--bootstrap', bootstrap])],
        environment: {
          ETHEREUM_RPC_URL: devnet.rpcUrl,
          FACILITATOR_URL: devnet.facilitatorUrl,
          ETHEREUM_PRIVATE_KEY: key,
          DATABASE_URL: database.address(),
        },
      })
    },
  }
}
