/* The settings: keys, schemas, variables, layers. Defaults are in config.ts, or in the part that uses the setting. */

import type * as z from 'zod'
import { PAYMENT_WINDOW_SECONDS_MAX } from '../schema/limits.ts'
import type { SourceSetting } from '../schema/source-setting.ts'
import type { WebhookSetting } from '../schema/webhook.ts'
import type { VariableName } from './env.ts'
import {
  AbsolutePathText,
  AnnounceList,
  BootstrapList,
  BuyerChannelsText,
  ChannelsText,
  countText,
  HeaderList,
  HostList,
  HostText,
  IpList,
  LogLevelText,
  NetworkList,
  NetworkText,
  NodeNameText,
  OriginList,
  PartyList,
  PortText,
  PublicUrlText,
  RpcUrlText,
  SwitchText,
  UrlList,
  UrlText,
  UsdcText,
  WithdrawDelayText,
} from './values.ts'

/** The longest that calls may go on when the node stops, in seconds. */
export const DRAIN_SECONDS_MAX = 3_600

/** How a setting is given: its key in config.yaml, its values, its variable, and what changes it in a running node. */
type SettingRow = {
  key: string
  schema: z.ZodType
  variable?: VariableName
  /** The flag of `stoa start`, if no variable names it. */
  flag?: string
  operation?: string
}

const budget = { operation: 'PUT /budget' }

/** Every key of config.yaml that has one value, in the order of the file. */
const settingRows = {
  nodeName: { key: 'name', schema: NodeNameText, variable: 'NODE_NAME' },
  publicUrl: { key: 'public_url', schema: PublicUrlText, variable: 'NODE_PUBLIC_URL' },
  network: { key: 'network', schema: NetworkText, variable: 'NODE_NETWORK' },
  rpcUrl: { key: 'rpc_url', schema: RpcUrlText, variable: 'ETHEREUM_RPC_URL' },
  facilitatorUrl: { key: 'facilitator_url', schema: UrlText, variable: 'FACILITATOR_URL' },
  facilitatorHeaders: { key: 'facilitator.headers_env', schema: HeaderList },
  facilitatorFallbacks: { key: 'facilitator.fallbacks', schema: UrlList },
  port: { key: 'p2p.port', schema: PortText, flag: '--port' },
  marketPort: { key: 'p2p.market_port', schema: PortText },
  listenHosts: { key: 'p2p.listen_hosts', schema: IpList, variable: 'NODE_LISTEN_HOST' },
  bootstrap: { key: 'p2p.bootstrap', schema: BootstrapList, variable: 'BOOTSTRAP_PEERS' },
  announce: { key: 'p2p.announce', schema: AnnounceList, variable: 'NODE_ANNOUNCE_ADDR' },
  mdns: { key: 'p2p.mdns', schema: SwitchText, flag: '--no-mdns' },
  relays: { key: 'p2p.relays', schema: BootstrapList, variable: 'RELAY_PEERS' },
  relay: { key: 'p2p.relay', schema: SwitchText, variable: 'NODE_RELAY' },
  upnp: { key: 'p2p.upnp', schema: SwitchText, variable: 'NODE_UPNP' },
  dialPrivate: { key: 'p2p.dial_private', schema: SwitchText, variable: 'NODE_DIAL_PRIVATE' },
  publicDht: { key: 'p2p.public_dht', schema: SwitchText, variable: 'NODE_PUBLIC_DHT' },
  connectionsPerAddress: {
    key: 'p2p.connections_per_address',
    schema: countText(10_000),
    variable: 'NODE_CONNECTIONS_PER_ADDRESS',
  },
  apiHost: { key: 'api.host', schema: HostText, variable: 'NODE_API_HOST' },
  apiPort: { key: 'api.port', schema: PortText, variable: 'NODE_API_PORT' },
  corsOrigins: { key: 'api.cors_origins', schema: OriginList, variable: 'NODE_CORS_ORIGINS' },
  allowedHosts: { key: 'api.allowed_hosts', schema: HostList },
  insecureOpenApi: { key: 'api.insecure_open', schema: SwitchText, flag: '--insecure-open-api' },
  requireToken: { key: 'api.require_token', schema: SwitchText },
  publicHost: { key: 'public.host', schema: HostText, variable: 'NODE_PUBLIC_HOST' },
  publicPort: { key: 'public.port', schema: PortText, variable: 'NODE_PUBLIC_PORT' },
  publicDoorUrl: { key: 'public.url', schema: PublicUrlText, variable: 'NODE_PUBLIC_LISTENER_URL' },
  publicTlsCert: { key: 'public.tls_cert', schema: AbsolutePathText, variable: 'NODE_PUBLIC_TLS_CERT_FILE' },
  publicTlsKey: { key: 'public.tls_key', schema: AbsolutePathText, variable: 'NODE_PUBLIC_TLS_KEY_FILE' },
  trustedProxies: { key: 'public.trusted_proxies', schema: NetworkList, variable: 'NODE_PUBLIC_TRUSTED_PROXIES' },
  maxPriceAtomic: { key: 'buyer.max_price', schema: UsdcText, variable: 'NODE_MAX_PRICE', ...budget },
  dailyBudgetAtomic: { key: 'buyer.daily_budget', schema: UsdcText, variable: 'NODE_DAILY_BUDGET', ...budget },
  monthlyBudgetAtomic: { key: 'buyer.monthly_budget', schema: UsdcText, variable: 'NODE_MONTHLY_BUDGET', ...budget },
  rateEvery: { key: 'buyer.rate_every', schema: countText(10_000) },
  sellerBudgetAtomic: { key: 'buyer.seller_daily_budget', schema: UsdcText, ...budget },
  autoApproveBelowAtomic: {
    key: 'buyer.auto_approve_below',
    schema: UsdcText,
    variable: 'NODE_AUTO_APPROVE_BELOW',
    ...budget,
  },
  approvalMinutes: { key: 'buyer.approval_minutes', schema: countText(100_000) },
  maxWindowSeconds: { key: 'buyer.max_window_seconds', schema: countText(PAYMENT_WINDOW_SECONDS_MAX) },
  allowSettleFirst: { key: 'buyer.allow_settle_first', schema: SwitchText },
  awaitSettlement: { key: 'buyer.await_settlement', schema: SwitchText },
  privateOrigins: { key: 'buyer.private_origins', schema: OriginList },
  channels: { key: 'buyer.channels', schema: BuyerChannelsText },
  channelAhead: { key: 'buyer.channel_ahead', schema: countText(10_000) },
  channelDepositMaxAtomic: { key: 'buyer.channel_deposit_max', schema: UsdcText },
  channelIdleHours: { key: 'buyer.channel_idle_hours', schema: countText(8_760) },
  buyFrom: { key: 'buyer.allow', schema: PartyList, ...budget },
  neverBuyFrom: { key: 'buyer.deny', schema: PartyList, ...budget },
  settleFirst: { key: 'seller.settle_first', schema: SwitchText, flag: '--settle-first' },
  unsettledPerPayerAtomic: { key: 'seller.unsettled_per_payer', schema: UsdcText },
  unsettledMaxAtomic: { key: 'seller.unsettled_max', schema: UsdcText },
  checkFundsFromAtomic: { key: 'seller.check_funds_from', schema: UsdcText },
  sellerChannels: { key: 'seller.channels', schema: ChannelsText },
  channelClaimThresholdAtomic: { key: 'seller.channel_claim_threshold', schema: UsdcText },
  channelWithdrawDelay: { key: 'seller.channel_withdraw_delay', schema: WithdrawDelayText },
  channelMinDepositAtomic: { key: 'seller.channel_min_deposit', schema: UsdcText },
  block: { key: 'seller.block', schema: PartyList },
  keepListed: { key: 'seller.keep_listed', schema: SwitchText, flag: '--keep-listed' },
  drainSeconds: { key: 'seller.drain_seconds', schema: countText(DRAIN_SECONDS_MAX) },
  concurrentRunsMax: { key: 'seller.concurrent_runs', schema: countText(1024) },
  peerRequestsPerSecond: {
    key: 'seller.peer_requests_per_second',
    schema: countText(1_000_000),
    variable: 'NODE_PEER_REQUESTS_PER_SECOND',
  },
  openaiDoor: { key: 'openai_door', schema: SwitchText },
  openaiDailyBudgetAtomic: { key: 'openai_daily_budget', schema: UsdcText },
  openaiMaxPriceAtomic: { key: 'openai_max_price', schema: UsdcText },
  logLevel: { key: 'log.level', schema: LogLevelText, flag: '--log-level' },
} satisfies Record<string, SettingRow>
export type SettingName = keyof typeof settingRows
export const settingEntries = Object.entries(settingRows) as [SettingName, SettingRow][]

/** Every setting that is not a secret, flat. Flags, the environment and config.yaml each provide some of them. */
export type Settings = { [S in SettingName]?: z.infer<(typeof settingRows)[S]['schema']> | undefined } & {
  dataDir?: string | undefined
  apiEnabled?: boolean | undefined
  webhooks?: WebhookSetting[] | undefined
  sources?: SourceSetting[] | undefined
}

/** Merges layers: the first layer that has a value for a setting wins. */
export function layered(...layers: readonly Settings[]): Settings {
  const settings: Record<string, unknown> = {}
  for (const layer of layers.toReversed()) {
    for (const [name, value] of Object.entries(layer)) if (value !== undefined) settings[name] = value
  }
  return settings as Settings
}
