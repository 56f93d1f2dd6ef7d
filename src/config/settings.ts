import type { Network } from '../schema/primitives.ts'
import type { WebhookSetting } from '../schema/webhook.ts'
import type { logLevels } from './values.ts'

/** Every setting that is not a secret, flat. Flags, the environment and config.yaml each provide some of them. */
export type Settings = {
  dataDir?: string | undefined
  nodeName?: string | undefined
  publicUrl?: string | undefined
  network?: Network | undefined
  rpcUrl?: string | undefined
  facilitatorUrl?: string | undefined
  facilitatorFallbacks?: string[] | undefined
  facilitatorHeaders?: string[] | undefined
  port?: number | undefined
  listenHosts?: string[] | undefined
  bootstrap?: string[] | undefined
  announce?: string[] | undefined
  mdns?: boolean | undefined
  relays?: string[] | undefined
  relay?: boolean | undefined
  upnp?: boolean | undefined
  dialPrivate?: boolean | undefined
  publicDht?: boolean | undefined
  connectionsPerAddress?: number | undefined
  apiEnabled?: boolean | undefined
  apiHost?: string | undefined
  apiPort?: number | undefined
  corsOrigins?: string[] | undefined
  allowedHosts?: string[] | undefined
  insecureOpenApi?: boolean | undefined
  requireToken?: boolean | undefined
  maxPriceAtomic?: bigint | undefined
  dailyBudgetAtomic?: bigint | undefined
  sellerBudgetAtomic?: bigint | undefined
  monthlyBudgetAtomic?: bigint | undefined
  rateEvery?: number | undefined
  autoApproveBelowAtomic?: bigint | undefined
  approvalMinutes?: number | undefined
  maxWindowSeconds?: number | undefined
  allowSettleFirst?: boolean | undefined
  buyFrom?: string[] | undefined
  neverBuyFrom?: string[] | undefined
  settleFirst?: boolean | undefined
  unsettledPerPayerAtomic?: bigint | undefined
  unsettledMaxAtomic?: bigint | undefined
  checkFundsFromAtomic?: bigint | undefined
  block?: string[] | undefined
  keepListed?: boolean | undefined
  concurrentRunsMax?: number | undefined
  peerRequestsPerSecond?: number | undefined
  webhooks?: WebhookSetting[] | undefined
  logLevel?: (typeof logLevels)[number] | undefined
}

/** Merges layers: the first layer that has a value for a setting wins. */
export function layered(...layers: readonly Settings[]): Settings {
  const settings: Record<string, unknown> = {}
  for (const layer of layers.toReversed()) {
    for (const [name, value] of Object.entries(layer)) if (value !== undefined) settings[name] = value
  }
  return settings as Settings
}
