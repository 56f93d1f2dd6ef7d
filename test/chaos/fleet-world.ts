import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { eachByItself } from '../support/each-by-itself.ts'
import { freePort } from '../support/loopback.ts'
import { type PostgresProxy, startPostgresProxy } from '../support/postgres-proxy.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { ChaosNode } from './node.ts'

export const PRICE = 10_000n
const RUN_SCRIPT = `task=$(cat); echo "\${task%%|*}" >> "$0"; sleep 0.1; printf %s "$task"`

/** The processes of one seller, or of one buyer: one identity, one wallet, one ledger. */
export type Side = {
  readonly account: Hex
  readonly peerId: string
  /** Of the ledger, past the proxy. */
  readonly database: string
  readonly nodes: readonly ChaosNode[]
}

export type FleetWorld = {
  readonly devnet: Devnet
  readonly server: PostgresServer
  /** Between all processes and the server. */
  readonly proxy: PostgresProxy
  readonly seller: Side
  readonly buyer: Side
  /** The file in which each run of the agent is a line: its task. */
  readonly runs: string
  /** Lets a share of all groups of changes fail at their commit with 40001, from now on. */
  refuseCommits(share: number): Promise<void>
  /** How often a commit was refused. */
  refused(): Promise<number>
  stop(): Promise<void>
}

type FleetSizes = { sellers: number; buyers: number; budget: bigint; tradesOnChannels?: boolean }

/** Starts a chain, a database server and all processes, which know one another by a node that does not trade. */
export async function startFleetWorld({
  sellers,
  buyers,
  budget,
  tradesOnChannels = false,
}: FleetSizes): Promise<FleetWorld> {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-fleet-'))
  const [devnet, server] = await Promise.all([startDevnet(), startPostgres()])
  const proxy = await startPostgresProxy({ host: server.host, port: server.port })
  const runs = join(dir, 'runs')
  const chain = { ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl }
  const port = await freePort()
  const hub = new ChaosNode({
    name: 'hub',
    args: ['--data-dir', await newDir('hub'), '--port', String(port)],
    environment: { ...chain, ETHEREUM_PRIVATE_KEY: generatePrivateKey() },
  })
  await hub.start()
  const met = ['--bootstrap', `/ip4/127.0.0.1/tcp/${port}/p2p/${hub.peerId}`]

  async function newDir(name: string): Promise<string> {
    const path = join(dir, name)
    await mkdir(path, { mode: 0o700 })
    return path
  }

  async function startSide(name: 'seller' | 'buyer', count: number, args: readonly string[]): Promise<Side> {
    await ask(server, 'postgres', `CREATE DATABASE ${name}`)
    const key = generatePrivateKey()
    const account = privateKeyToAccount(key).address
    if (name === 'buyer') await devnet.fund(account, 100_000_000n)
    const nodes: ChaosNode[] = []
    let first: string | undefined
    for (let number = 1; number <= count; number += 1) {
      const dataDir = await newDir(`${name}-${number}`)
      if (first === undefined) await loadOrCreateIdentity(join(dataDir, 'identity.key'))
      else await copyFile(join(first, 'identity.key'), join(dataDir, 'identity.key'))
      first ??= dataDir
      if (name === 'seller') await writeAgent(dataDir, runs)
      const paying = tradesOnChannels ? { channels: 'auto' } : eachByItself
      // JSON is YAML.
      const config = JSON.stringify({ seller: paying, buyer: paying })
      await writeFile(join(dataDir, 'config.yaml'), config, { mode: 0o600 })
      const environment = {
        ...chain,
        ETHEREUM_PRIVATE_KEY: key,
        DATABASE_URL: server.address(name, proxy.port),
        TMP_SHARED: '1',
      }
      nodes.push(
        new ChaosNode({
          name: `${name}-${number}`,
          args: ['--data-dir', dataDir, '--port', '0', ...met, ...args],
          environment,
          // The others take over when the lease ends, as they would anywhere.
          waitsForLease: true,
        }),
      )
    }
    for (const node of nodes) await node.start()
    return { account, peerId: nodes[0]!.peerId, database: server.address(name), nodes }
  }

  const seller = await startSide('seller', sellers, [])
  const buyer = await startSide('buyer', buyers, ['--daily-budget', String(Number(budget) / 1e6)])
  const databases = ['seller', 'buyer']
  return {
    ...{ devnet, server, proxy, seller, buyer, runs },
    async refuseCommits(share) {
      for (const database of databases) for (const sql of refusing(share)) await ask(server, database, sql)
    },
    async refused() {
      const counts = databases.map((database) => ask(server, database, 'SELECT last_value - 1 AS n FROM refusals'))
      return (await Promise.all(counts)).reduce((sum, [row]) => sum + Number(row!.n), 0)
    },
    async stop() {
      await Promise.all([hub, ...seller.nodes, ...buyer.nodes].map((node) => node.end('SIGKILL')))
      await proxy.close()
      await server.stop()
      await devnet.stop()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Each group of changes writes its number into the row of its process. A number of a sequence outlives a rollback. */
function refusing(share: number): string[] {
  return [
    'CREATE SEQUENCE refusals MINVALUE 1 START 2',
    "SELECT setval('refusals', 1)",
    `CREATE FUNCTION refuse_some() RETURNS TRIGGER LANGUAGE plpgsql AS $$
      BEGIN
        IF random() < ${share} THEN
          PERFORM nextval('refusals');
          RAISE EXCEPTION USING ERRCODE = '40001';
        END IF;
        RETURN NULL;
      END $$`,
    `CREATE CONSTRAINT TRIGGER refuses_some AFTER UPDATE ON processes DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW WHEN (OLD.group_no IS DISTINCT FROM NEW.group_no) EXECUTE FUNCTION refuse_some()`,
  ]
}

async function writeAgent(dataDir: string, runs: string): Promise<void> {
  const command = ['/bin/sh', '-c', RUN_SCRIPT, runs]
  const agent = { name: 'repeat', description: 'gives back what it is given', price: Number(PRICE) / 1e6, command }
  // JSON is valid YAML.
  await writeFile(join(dataDir, 'agents.yaml'), JSON.stringify({ agents: [agent] }), { mode: 0o600 })
}

async function ask(server: PostgresServer, database: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(server.address(database))
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}
