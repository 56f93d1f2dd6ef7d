import { type Config, createConfig } from '../../src/config/config.ts'
import { createSecrets, type Secrets } from '../../src/config/secrets.ts'
import { BUDGET_ATOMIC, NETWORK } from './terms.ts'

/** A node as it is shipped, but for this: no API, loopback only, a budget and a request limit that no run can reach. */
export function benchConfig(part: { dataDir: string; bootstrap?: string; facilitatorUrl?: string }): {
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
  // Nobody beyond this machine is asked: an address that is not given is none, not the default one.
  return {
    config: { ...config, rpcUrl: undefined, facilitatorUrl: part.facilitatorUrl },
    secrets: createSecrets({}, {}),
  }
}
