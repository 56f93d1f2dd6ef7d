import { afterAll, beforeAll } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { startTestNode, stopTestNodes, type TestNode } from './loopback-node.ts'
import { killNodeProcesses } from './node-process.ts'
import { killWorkerProcesses } from './worker-process.ts'

/**
 * A local chain and a buyer with money, for the tests of one file. After the last test they stop, and so do all nodes,
 * processes and workers that the tests have started.
 */
export function useBuyerMarket(): { devnet: Devnet; buyer: TestNode } {
  const market = {} as { devnet: Devnet; buyer: TestNode }
  beforeAll(async () => {
    market.devnet = await startDevnet()
    const { rpcUrl, facilitatorUrl, wallets } = market.devnet
    market.buyer = await startTestNode({ key: wallets.buyer.privateKey, rpcUrl, facilitatorUrl })
  })
  afterAll(async () => {
    await killWorkerProcesses()
    await killNodeProcesses()
    await stopTestNodes()
    await market.devnet?.stop()
  }, 30_000)
  return market
}
