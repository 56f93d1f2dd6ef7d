import type { Config } from '../../src/config/config.ts'
import { createSecrets, type Secrets } from '../../src/config/secrets.ts'
import { BUDGET_ATOMIC, NETWORK } from './terms.ts'

/** A node as it is shipped, but for this: no API, loopback only, a budget and a request limit that no run can reach. */
export function benchConfig(part: { dataDir: string; bootstrap?: string; facilitatorUrl?: string }): {
  config: Config
  secrets: Secrets
} {
  const config: Config = {
    dataDir: part.dataDir,
    network: NETWORK,
    rpcUrl: undefined,
    facilitatorUrl: part.facilitatorUrl,
    p2p: {
      port: 0,
      listenHosts: ['127.0.0.1'],
      bootstrap: part.bootstrap === undefined ? [] : [part.bootstrap],
      announce: [],
      mdns: false,
      relays: [],
      relay: false,
      upnp: false,
      publicDht: false,
    },
    api: {
      host: '127.0.0.1',
      port: 0,
      corsOrigins: [],
      allowedHosts: [],
      insecureOpen: false,
      requireToken: false,
      enabled: false,
    },
    buyer: { maxPriceAtomic: 1_000_000n, dailyBudgetAtomic: BUDGET_ATOMIC },
    seller: { settleFirst: false, keepListed: false, concurrentRunsMax: 16, peerRequestsPerSecond: 1_000_000 },
    log: { level: 'silent' },
  }
  return { config, secrets: createSecrets({}, {}) }
}
