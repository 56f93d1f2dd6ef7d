import { createConfig } from '../../src/config/config.ts'
import { createSecrets } from '../../src/config/secrets.ts'
import type { Settings } from '../../src/config/settings.ts'
import { createNode } from '../../src/node/create-node.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { BUDGET_ATOMIC, NETWORK } from '../paid-call/terms.ts'

/** The price of a call: 0.0001 USDC, a tenth of what a transaction costs. */
export const PRICE_ATOMIC = 100n
/** Tasks that begin like this fail, or show their output while they run. */
export const FAILS = 'fail'
export const STREAMS = 'stream'

/** A whole node on loopback, with the default configuration but for its limits. */
export async function startNode(settings: Settings & { dataDir: string; rpcUrl: string }, key: string) {
  const config = createConfig({
    ...{ network: NETWORK, port: 0, listenHosts: ['127.0.0.1'], mdns: false, apiEnabled: false, logLevel: 'silent' },
    ...{ dailyBudgetAtomic: BUDGET_ATOMIC, peerRequestsPerSecond: 1_000_000, connectionsPerAddress: 1_000 },
    ...settings,
  })
  const environment = { ETHEREUM_PRIVATE_KEY: key as Hex }
  const node = await createNode(config, createSecrets(environment, environment))
  await node.start()
  return node
}
