import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { eachByItself } from '../support/each-by-itself.ts'
import { type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { type FaultyRpc, startFaultyRpc } from '../support/faulty-rpc.ts'
import { freePort } from '../support/loopback.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { type Disk, mountDisk } from './disk.ts'
import { type Link, startLink } from './link.ts'
import { ChaosNode } from './node.ts'

/** All agents that a seller offers, and how each handles a task. */
export const agents = {
  repeat: { price: 10_000n, script: `echo "\${task%%|*}" >> "$0"; printf %s "$task"` },
  slow: { price: 20_000n, script: `sleep 1; echo "\${task%%|*}" >> "$0"; printf %s "$task"` },
  frail: {
    price: 30_000n,
    script: `echo "\${task%%|*}" >> "$0"; case "$task" in *fail*) exit 1;; esac; printf %s "$task"`,
  },
  free: { price: 0n, script: `echo "\${task%%|*}" >> "$0"; printf %s "$task"` },
} as const
export type AgentName = keyof typeof agents
export const TIME_LIMIT_SECONDS = 10
/** Budgets in atomic units. The second buyer reaches its limit in a run of several minutes. */
export const budgets = { 'buyer-1': 20_000_000n, 'buyer-2': 1_000_000n } as const
const FUNDS = 50_000_000n
const BLOCK_EVERY_MS = 1_000
const CONFIRMATION_MS = 5_000

export type Member = {
  readonly node: ChaosNode
  readonly dataDir: string
  /** The file in which a seller's agents write one line for each run: the name of the task. */
  readonly runs: string
  readonly account: Hex
  /** The ledger, if it is in PostgreSQL. */
  readonly databaseUrl: string | undefined
  readonly rpc: FaultyRpc
  readonly disk: Disk | undefined
  /** All network links of the node. */
  readonly links: Link[]
}

/** The processes of a market and the proxies between them. */
export type World = {
  readonly devnet: Devnet
  readonly facilitator: FaultyFacilitator
  /** Holds all ledgers, if they are not files. */
  readonly server: PostgresServer | undefined
  readonly sellers: readonly string[]
  readonly buyers: readonly string[]
  member(name: string): Member
  members(): Member[]
  stopBlocks(): Promise<void>
  startBlocks(): Promise<void>
  /** Stops all processes. `isKept` keeps the files on disk. */
  stop(isKept: boolean): Promise<void>
}

/** With STOA_TEST_ENGINE=postgres each node has a ledger of its own on one server. */
export async function startWorld(): Promise<World> {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-chaos-'))
  const devnet = await startDevnet({ confirmationTimeoutMs: CONFIRMATION_MS })
  const facilitator = await startFaultyFacilitator(devnet.facilitatorUrl)
  const server = process.env.STOA_TEST_ENGINE === 'postgres' ? await startPostgres() : undefined
  const sellers = ['seller-1', 'seller-2']
  const buyers = Object.keys(budgets)
  const names = [...sellers, ...buyers]
  const ports = new Map<string, number>()
  for (const name of names) ports.set(name, await freePort())
  const links = new Map<string, Map<string, Link>>()
  for (const from of names) {
    const others = names.filter((name) => name !== from)
    const made = others.map(async (to) => [to, await startLink(ports.get(to)!)] as const)
    links.set(from, new Map(await Promise.all(made)))
  }
  const members = new Map<string, Member>()
  let bootstrap: string | undefined
  for (const name of names) {
    const member = await createMember(name)
    members.set(name, member)
    await member.node.start()
    bootstrap ??= `/ip4/127.0.0.1/tcp/${ports.get(name)}/p2p/${member.node.peerId}`
  }
  let ticker: NodeJS.Timeout | undefined
  const startBlocks = async () => {
    await devnet.chain.setAutomine(true)
    await devnet.chain.mine()
    ticker ??= setInterval(() => void devnet.chain.mine().catch(() => {}), BLOCK_EVERY_MS)
  }
  await startBlocks()

  async function createMember(name: string): Promise<Member> {
    const place = join(dir, name)
    const disk = await mountDisk(place)
    await chmod(place, 0o700)
    const dataDir = join(place, 'data')
    await mkdir(dataDir, { mode: 0o700 })
    // JSON is YAML.
    await writeFile(join(dataDir, 'config.yaml'), JSON.stringify({ buyer: eachByItself }), { mode: 0o600 })
    const key = generatePrivateKey()
    const account = privateKeyToAccount(key).address
    const rpc = await startFaultyRpc(devnet.rpcUrl)
    const isSeller = sellers.includes(name)
    const runs = join(dir, `${name}.runs`)
    if (isSeller) await writeAgents(dataDir, runs)
    else await devnet.fund(account, FUNDS)
    const own = links.get(name)!
    const routes = [...own].map(([to, link]) => `${ports.get(to)}:${link.port}`).join(',')
    const budget = budgets[name as keyof typeof budgets]
    const args = ['--data-dir', dataDir, '--port', String(ports.get(name))]
    if (bootstrap !== undefined) args.push('--bootstrap', bootstrap)
    if (budget !== undefined) args.push('--daily-budget', String(Number(budget) / 1e6), '--max-price', '0.05')
    const databaseUrl = server && (await createDatabase(server, name.replace('-', '_')))
    const node = new ChaosNode({
      name,
      args,
      environment: {
        ETHEREUM_RPC_URL: rpc.url,
        FACILITATOR_URL: facilitator.url,
        ETHEREUM_PRIVATE_KEY: key,
        CHAOS_ROUTES: routes,
        ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
      },
    })
    const ways = [...own.values(), ...[...links.values()].flatMap((to) => to.get(name) ?? [])]
    return { node, dataDir, runs, account, databaseUrl, rpc, disk, links: ways }
  }

  return {
    devnet,
    facilitator,
    server,
    sellers,
    buyers,
    member: (name) => members.get(name)!,
    members: () => [...members.values()],
    startBlocks,
    async stopBlocks() {
      clearInterval(ticker)
      ticker = undefined
      await devnet.chain.setAutomine(false)
    },
    async stop(isKept) {
      clearInterval(ticker)
      await Promise.all([...members.values()].map(({ node }) => node.end('SIGKILL')))
      for (const { rpc, links: ways } of members.values()) await Promise.all([rpc.stop(), ...ways.map((w) => w.stop())])
      await facilitator.stop()
      await devnet.stop()
      await server?.stop()
      if (isKept) return
      for (const { disk } of members.values()) disk?.remove()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function createDatabase(server: PostgresServer, name: string): Promise<string> {
  const admin = new pg.Client(server.address('postgres'))
  await admin.connect()
  await admin.query(`CREATE DATABASE ${name}`)
  await admin.end()
  return server.address(name)
}

async function writeAgents(dataDir: string, runs: string): Promise<void> {
  const entries = Object.entries(agents).map(([name, { price, script }]) => ({
    name,
    description: `gives back what it is given (${name})`,
    price: Number(price) / 1e6,
    command: ['/bin/sh', '-c', `task=$(cat); ${script}`, runs],
    timeout_seconds: TIME_LIMIT_SECONDS,
  }))
  // JSON is valid YAML.
  await writeFile(join(dataDir, 'agents.yaml'), JSON.stringify({ agents: entries }), { mode: 0o600 })
}
