/** A lab with a chain and a facilitator that all its namespaces reach, and nodes that trade there. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Hex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import { until } from '../support/until.ts'
import { Lab, type Place } from './lab.ts'
import { LabNode, type LabNodeOptions, type SeenListing } from './lab-node.ts'

const RPC_PORT = 8545
const FACILITATOR_PORT = 8546

export class LabMarket {
  readonly lab = new Lab()
  readonly places: Record<string, Place> = {}
  readonly nodes: Record<string, LabNode> = {}
  readonly home: string
  readonly #devnet: Devnet
  readonly #cleanups: (() => unknown)[] = []

  private constructor(home: string, devnet: Devnet) {
    this.home = home
    this.#devnet = devnet
  }

  static async start(): Promise<LabMarket> {
    const market = new LabMarket(await mkdtemp(join(tmpdir(), 'stoa-nat-')), await startDevnet())
    await market.lab.start()
    await market.#startProxy()
    return market
  }

  /** Starts a node in the place of that name. */
  async start(name: string, options: Partial<LabNodeOptions> = {}): Promise<LabNode> {
    const key = options.key ?? generatePrivateKey()
    const center = `http://${this.lab.center.ip}`
    const node = await LabNode.start(this.places[name]!, {
      dataDir: join(this.home, name),
      rpcUrl: `${center}:${RPC_PORT}`,
      facilitatorUrl: `${center}:${FACILITATOR_PORT}`,
      ...options,
      key,
    })
    this.nodes[name] = node
    return node
  }

  /** The key of an account with a dollar. */
  async fundedKey(): Promise<Hex> {
    const key = generatePrivateKey()
    await this.#devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
    return key
  }

  /** The peer address of a node on the public segment. */
  address(name: string): string {
    return `/ip4/${this.places[name]!.ip}/tcp/4001/p2p/${this.nodes[name]!.peerId}`
  }

  async stop(): Promise<void> {
    const logs = process.env.STOA_NAT_LOGS
    if (logs !== undefined) {
      for (const [name, node] of Object.entries(this.nodes)) await writeFile(join(logs, `${name}.log`), node.log())
    }
    await Promise.allSettled(Object.values(this.nodes).map((node) => node.kill()))
    for (const cleanup of this.#cleanups) cleanup()
    await this.lab.stop()
    await this.#devnet.stop()
    await rm(this.home, { recursive: true, force: true })
  }

  async #startProxy(): Promise<void> {
    const pairs = []
    for (const [url, port] of [
      [this.#devnet.rpcUrl, RPC_PORT],
      [this.#devnet.facilitatorUrl, FACILITATOR_PORT],
    ] as const) {
      const path = join(this.home, `${port}.sock`)
      const server = await throughSocket(url, path)
      this.#cleanups.push(() => server.close())
      pairs.push(String(port), path)
    }
    const main = fileURLToPath(new URL('./proxy.ts', import.meta.url))
    const { name, ip } = this.lab.center
    const args = ['netns', 'exec', name, process.execPath, '--no-warnings', main, ip, ...pairs]
    const child = spawn('ip', args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#cleanups.push(() => child.kill('SIGKILL'))
    await once(child.stdout!, 'data')
  }
}

/** The seller's listing, once the node knows one that fits. */
export async function found(
  node: LabNode,
  seller: LabNode,
  fits: (listing: SeenListing) => boolean = () => true,
): Promise<SeenListing> {
  return await until(
    async () => (await node.ask('listings')).find((one) => one.seller_id === seller.peerId && fits(one)),
    { timeoutMs: 60_000 },
  )
}

export async function buy(buyer: LabNode, seller: LabNode): Promise<ExecutionResult & { ms: number }> {
  const listing = await found(buyer, seller)
  const began = performance.now()
  const result = await buyer.ask('execute', { agentId: listing.id, input: 'hello' })
  return { ...result, ms: performance.now() - began }
}

export const isRelayed = ({ addrs }: SeenListing) => addrs.some((address) => address.includes('/p2p-circuit/'))

/** Makes a port of this machine a unix socket, which namespaces share. */
async function throughSocket(url: string, path: string): Promise<Server> {
  const { hostname, port } = new URL(url)
  const server = createServer((near) => {
    const far = connect(Number(port), hostname)
    near.on('error', () => far.destroy()).on('close', () => far.destroy())
    far.on('error', () => near.destroy()).on('close', () => near.destroy())
    near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return server
}
