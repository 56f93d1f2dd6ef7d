import { type Config, createConfig } from '../../src/config/config.ts'
import { createSecrets, type Secrets } from '../../src/config/secrets.ts'
import type { Settings } from '../../src/config/settings.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { BUDGET_ATOMIC, NETWORK } from './terms.ts'

/** A chain, and an account on it. */
type OnChain = { rpcUrl: string; key: Hex }

/** The chain that a part's setup names. Undefined: it names none. */
export function onChainOf({ rpcUrl, key }: { rpcUrl?: string; key?: string }): OnChain | undefined {
  return rpcUrl === undefined || key === undefined ? undefined : { rpcUrl, key: key as Hex }
}

/**
 * The default configuration with four changes: no API, loopback only, and a budget and a request limit that no run
 * reaches.
 */
export function benchConfig(part: {
  dataDir: string
  bootstrap?: string
  facilitatorUrl?: string
  /** Empty: SQLite. */
  databaseUrl: string
  /** Without it nothing is asked of a chain. */
  onChain?: OnChain | undefined
  settings?: Settings | undefined
}): {
  config: Config
  secrets: Secrets
} {
  const { dataDir, settings } = part
  const config = createConfig({
    ...settings,
    dataDir,
    network: NETWORK,
    port: 0,
    listenHosts: ['127.0.0.1'],
    bootstrap: part.bootstrap === undefined ? [] : [part.bootstrap],
    mdns: false,
    apiEnabled: false,
    dailyBudgetAtomic: BUDGET_ATOMIC,
    peerRequestsPerSecond: 1_000_000,
    logLevel: 'silent',
  })
  // The node calls nothing outside this machine. A missing address means no address, and not the default.
  const { onChain, databaseUrl } = part
  const environment = {
    ...(databaseUrl !== '' && { DATABASE_URL: databaseUrl }),
    ...(onChain !== undefined && { ETHEREUM_PRIVATE_KEY: onChain.key }),
  }
  return {
    config: { ...config, rpcUrl: onChain?.rpcUrl, facilitatorUrl: part.facilitatorUrl },
    secrets: createSecrets(environment, environment),
  }
}
