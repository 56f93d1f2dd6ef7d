import { type Config, createConfig } from '../../src/config/config.ts'
import { createSecrets, type Secrets } from '../../src/config/secrets.ts'
import { BUDGET_ATOMIC, NETWORK } from './terms.ts'

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
}): {
  config: Config
  secrets: Secrets
} {
  const config = createConfig({
    dataDir: part.dataDir,
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
  return {
    config: { ...config, rpcUrl: undefined, facilitatorUrl: part.facilitatorUrl },
    secrets: createSecrets(part.databaseUrl === '' ? {} : { DATABASE_URL: part.databaseUrl }, {}),
  }
}
