import { join } from 'node:path'
import { formatPrice } from '../schema/amount.ts'
import type { Configuration, Setting } from '../schema/configuration.ts'
import { PAYMENT_WINDOW_SECONDS } from '../schema/limits.ts'
import type { Config } from './config.ts'
import { flagOf } from './env.ts'
import { type SettingName, settingEntries } from './settings.ts'

const values: Readonly<Record<SettingName, (config: Config) => Setting['value']>> = {
  nodeName: ({ nodeName }) => nodeName ?? null,
  publicUrl: ({ publicUrl }) => publicUrl ?? null,
  network: ({ network }) => network,
  rpcUrl: ({ rpcUrl }) => originOf(rpcUrl),
  facilitatorUrl: ({ facilitatorUrl }) => originOf(facilitatorUrl),
  facilitatorHeaders: ({ facilitatorHeaders }) => facilitatorHeaders,
  facilitatorFallbacks: ({ facilitatorFallbacks }) => facilitatorFallbacks.map((url) => originOf(url)!),
  port: ({ p2p }) => p2p.port,
  marketPort: ({ p2p }) => p2p.marketPort,
  listenHosts: ({ p2p }) => p2p.listenHosts,
  bootstrap: ({ p2p }) => p2p.bootstrap,
  announce: ({ p2p }) => p2p.announce,
  mdns: ({ p2p }) => p2p.mdns,
  relays: ({ p2p }) => p2p.relays,
  relay: ({ p2p }) => p2p.relay,
  upnp: ({ p2p }) => p2p.upnp,
  dialPrivate: ({ p2p }) => p2p.dialPrivate ?? null,
  publicDht: ({ p2p }) => p2p.publicDht,
  connectionsPerAddress: ({ p2p }) => p2p.connectionsPerAddress,
  apiHost: ({ api }) => api.host,
  apiPort: ({ api }) => api.port,
  corsOrigins: ({ api }) => api.corsOrigins,
  allowedHosts: ({ api }) => api.allowedHosts,
  insecureOpenApi: ({ api }) => api.insecureOpen,
  requireToken: ({ api }) => api.requireToken,
  publicHost: (config) => config.public.host,
  publicPort: (config) => config.public.port ?? null,
  publicDoorUrl: (config) => config.public.url ?? null,
  publicTlsCert: (config) => config.public.tls?.cert ?? null,
  publicTlsKey: (config) => config.public.tls?.key ?? null,
  trustedProxies: (config) => config.public.trustedProxies,
  maxPriceAtomic: ({ buyer }) => price(buyer.maxPriceAtomic),
  dailyBudgetAtomic: ({ buyer }) => price(buyer.dailyBudgetAtomic),
  monthlyBudgetAtomic: ({ buyer }) => price(buyer.monthlyBudgetAtomic),
  rateEvery: ({ buyer }) => buyer.rateEvery ?? null,
  sellerBudgetAtomic: ({ buyer }) => price(buyer.sellerBudgetAtomic),
  autoApproveBelowAtomic: ({ buyer }) => price(buyer.autoApproveBelowAtomic),
  approvalMinutes: ({ buyer }) => buyer.approvalMinutes ?? null,
  maxWindowSeconds: ({ buyer }) => buyer.maxWindowSeconds ?? PAYMENT_WINDOW_SECONDS,
  allowSettleFirst: ({ buyer }) => buyer.allowSettleFirst,
  awaitSettlement: ({ buyer }) => buyer.awaitSettlement,
  privateOrigins: ({ buyer }) => [...buyer.privateOrigins],
  channels: ({ buyer }) => buyer.channels.mode,
  channelAhead: ({ buyer }) => buyer.channels.aheadCalls,
  channelDepositMaxAtomic: ({ buyer }) => price(buyer.channels.depositMax),
  channelIdleHours: ({ buyer }) => buyer.channels.idleMs / (60 * 60 * 1000),
  buyFrom: ({ buyer }) => buyer.allow ?? [],
  neverBuyFrom: ({ buyer }) => buyer.deny ?? [],
  settleFirst: ({ seller }) => seller.settleFirst,
  unsettledPerPayerAtomic: ({ seller }) => price(seller.unsettledPerPayerAtomic),
  unsettledMaxAtomic: ({ seller }) => price(seller.unsettledMaxAtomic),
  checkFundsFromAtomic: ({ seller }) => price(seller.checkFundsFromAtomic),
  sellerChannels: ({ seller }) => seller.channels,
  channelClaimThresholdAtomic: ({ seller }) => price(seller.channelClaimThresholdAtomic),
  channelWithdrawDelay: ({ seller }) => seller.channelWithdrawDelaySeconds,
  channelMinDepositAtomic: ({ seller }) => price(seller.channelMinDepositAtomic),
  block: ({ seller }) => seller.block ?? [],
  keepListed: ({ seller }) => seller.keepListed,
  drainSeconds: ({ seller }) => seller.drainSeconds,
  concurrentRunsMax: ({ seller }) => seller.concurrentRunsMax,
  peerRequestsPerSecond: ({ seller }) => seller.peerRequestsPerSecond,
  openaiDoor: ({ openai }) => openai.enabled,
  openaiDailyBudgetAtomic: ({ openai }) => price(openai.dailyBudgetAtomic),
  openaiMaxPriceAtomic: ({ openai }) => price(openai.maxPriceAtomic),
  logLevel: ({ log }) => log.level,
}

/**
 * The settings of a node without secrets, even if a URL holds one (T21).
 *
 * @param inForce values, by key, that differ from the start configuration: defaults of other parts, and later changes
 */
export function shownConfig(config: Config, inForce: Readonly<Record<string, Setting['value']>> = {}): Configuration {
  const settings = settingEntries.map(([name, { key, variable, flag = variable && flagOf(variable), operation }]) => ({
    ...{ key, value: Object.hasOwn(inForce, key) ? inForce[key]! : values[name](config) },
    ...(flag && { flag }),
    ...(variable && { variable }),
    ...(operation && { operation }),
  }))
  return { config_file: join(config.dataDir, 'config.yaml'), settings }
}

/** Keeps only the origin: providers put keys into user names, paths and queries. */
function originOf(url: string | undefined): string | null {
  const parsed = url === undefined ? null : URL.parse(url)
  return parsed === null ? null : `${parsed.protocol}//${parsed.host}`
}

function price(amount: bigint | undefined): string | null {
  return amount === undefined ? null : formatPrice(amount)
}
