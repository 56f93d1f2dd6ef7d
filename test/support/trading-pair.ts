import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { startTestNode, type TestNode, type TestNodeOptions } from './test-node.ts'
import { until } from './until.ts'

type Sold = Parameters<TestNode['node']['registerAgent']>[0]
export type TradingPair = {
  devnet: Devnet
  /** A temporary directory. `stop` removes it. */
  home: string
  seller: TestNode
  buyer: TestNode
  /** The seller's listings by name. */
  listed: Record<string, Listing>
  /** Restarts the buyer after the test has stopped it. */
  startBuyer(): Promise<TestNode>
  stop(): Promise<void>
}

/** Starts a seller with agents and a buyer that knows them, on a new chain. */
export async function startTradingPair(
  sold: (home: string) => readonly Sold[] | Promise<readonly Sold[]>,
  options: (home: string) => TestNodeOptions = () => ({}),
): Promise<TradingPair> {
  const ends: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  }
  try {
    const home = await mkdtemp(join(tmpdir(), 'stoa-pair-'))
    ends.push(() => rm(home, { recursive: true, force: true }))
    const devnet = await startDevnet()
    ends.push(() => devnet.stop())
    const seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey })
    ends.push(() => seller.stop())
    const listed: Record<string, Listing> = {}
    for (const agent of await sold(home)) {
      listed[agent.name] = await seller.node.registerAgent(agent, { persist: false })
    }
    const bootstrap = [seller.node.addresses()[0]!]
    const walletKey = devnet.wallets.buyer.privateKey
    let running: TestNode | undefined
    ends.push(() => Promise.resolve(running?.stop()))
    const startBuyer = async () => {
      running = await startTestNode({ devnet, walletKey, bootstrap, ...options(home) })
      return running
    }
    const buyer = await startBuyer()
    // The search index follows the listings after a moment.
    const { length } = Object.keys(listed)
    await until(() => buyer.node.market.page({}).items.length === length)
    return { devnet, home, seller, buyer, listed, startBuyer, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
