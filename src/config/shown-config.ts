import { join } from 'node:path'
import { formatPrice } from '../schema/amount.ts'
import type { Configuration, Setting } from '../schema/configuration.ts'
import { PAYMENT_WINDOW_SECONDS } from '../schema/limits.ts'
import type { Config } from './config.ts'
import { flagOf, type VariableName } from './env.ts'

type Changed = { variable?: VariableName; flag?: string; operation?: string }
type Row = readonly [key: string, value: (config: Config) => Setting['value'], changed?: Changed]

const budget = { operation: 'PUT /budget' }

/** Every key of config.yaml that has one value, in the order of the file. */
const rows: readonly Row[] = [
  ['name', ({ nodeName }) => nodeName ?? null, { variable: 'NODE_NAME' }],
  ['public_url', ({ publicUrl }) => publicUrl ?? null, { variable: 'NODE_PUBLIC_URL' }],
  ['network', ({ network }) => network, { variable: 'NODE_NETWORK' }],
  ['rpc_url', ({ rpcUrl }) => originOf(rpcUrl), { variable: 'ETHEREUM_RPC_URL' }],
  ['facilitator_url', ({ facilitatorUrl }) => originOf(facilitatorUrl), { variable: 'FACILITATOR_URL' }],
  ['facilitator.headers_env', ({ facilitatorHeaders }) => facilitatorHeaders],
  ['facilitator.fallbacks', ({ facilitatorFallbacks }) => facilitatorFallbacks.map((url) => originOf(url)!)],
  ['p2p.port', ({ p2p }) => p2p.port, { flag: '--port' }],
  ['p2p.listen_hosts', ({ p2p }) => p2p.listenHosts, { variable: 'NODE_LISTEN_HOST' }],
  ['p2p.bootstrap', ({ p2p }) => p2p.bootstrap, { variable: 'BOOTSTRAP_PEERS' }],
  ['p2p.announce', ({ p2p }) => p2p.announce, { variable: 'NODE_ANNOUNCE_ADDR' }],
  ['p2p.mdns', ({ p2p }) => p2p.mdns, { flag: '--no-mdns' }],
  ['p2p.relays', ({ p2p }) => p2p.relays, { variable: 'RELAY_PEERS' }],
  ['p2p.relay', ({ p2p }) => p2p.relay, { variable: 'NODE_RELAY' }],
  ['p2p.upnp', ({ p2p }) => p2p.upnp, { variable: 'NODE_UPNP' }],
  ['p2p.dial_private', ({ p2p }) => p2p.dialPrivate ?? null, { variable: 'NODE_DIAL_PRIVATE' }],
  ['p2p.public_dht', ({ p2p }) => p2p.publicDht, { variable: 'NODE_PUBLIC_DHT' }],
  ['p2p.connections_per_address', ({ p2p }) => p2p.connectionsPerAddress, { variable: 'NODE_CONNECTIONS_PER_ADDRESS' }],
  ['api.host', ({ api }) => api.host, { variable: 'NODE_API_HOST' }],
  ['api.port', ({ api }) => api.port, { variable: 'NODE_API_PORT' }],
  ['api.cors_origins', ({ api }) => api.corsOrigins, { variable: 'NODE_CORS_ORIGINS' }],
  ['api.allowed_hosts', ({ api }) => api.allowedHosts],
  ['api.insecure_open', ({ api }) => api.insecureOpen, { flag: '--insecure-open-api' }],
  ['api.require_token', ({ api }) => api.requireToken],
  ['buyer.max_price', ({ buyer }) => price(buyer.maxPriceAtomic), { variable: 'NODE_MAX_PRICE', ...budget }],
  ['buyer.daily_budget', ({ buyer }) => price(buyer.dailyBudgetAtomic), { variable: 'NODE_DAILY_BUDGET', ...budget }],
  [
    'buyer.monthly_budget',
    ({ buyer }) => price(buyer.monthlyBudgetAtomic),
    { variable: 'NODE_MONTHLY_BUDGET', ...budget },
  ],
  ['buyer.rate_every', ({ buyer }) => buyer.rateEvery ?? null],
  ['buyer.seller_daily_budget', ({ buyer }) => price(buyer.sellerBudgetAtomic), budget],
  [
    'buyer.auto_approve_below',
    ({ buyer }) => price(buyer.autoApproveBelowAtomic),
    { variable: 'NODE_AUTO_APPROVE_BELOW', ...budget },
  ],
  ['buyer.approval_minutes', ({ buyer }) => buyer.approvalMinutes ?? null],
  ['buyer.max_window_seconds', ({ buyer }) => buyer.maxWindowSeconds ?? PAYMENT_WINDOW_SECONDS],
  ['buyer.allow_settle_first', ({ buyer }) => buyer.allowSettleFirst],
  ['buyer.allow', ({ buyer }) => buyer.allow ?? [], budget],
  ['buyer.deny', ({ buyer }) => buyer.deny ?? [], budget],
  ['seller.settle_first', ({ seller }) => seller.settleFirst, { flag: '--settle-first' }],
  ['seller.unsettled_per_payer', ({ seller }) => price(seller.unsettledPerPayerAtomic)],
  ['seller.unsettled_max', ({ seller }) => price(seller.unsettledMaxAtomic)],
  ['seller.check_funds_from', ({ seller }) => price(seller.checkFundsFromAtomic)],
  ['seller.block', ({ seller }) => seller.block ?? []],
  ['seller.keep_listed', ({ seller }) => seller.keepListed, { flag: '--keep-listed' }],
  ['seller.concurrent_runs', ({ seller }) => seller.concurrentRunsMax],
  [
    'seller.peer_requests_per_second',
    ({ seller }) => seller.peerRequestsPerSecond,
    { variable: 'NODE_PEER_REQUESTS_PER_SECOND' },
  ],
  ['log.level', ({ log }) => log.level, { flag: '--log-level' }],
]

/**
 * The settings of a node without secrets, even if a URL holds one (T21).
 *
 * @param inForce values, by key, that differ from the start configuration: defaults of other parts, and later changes
 */
export function shownConfig(config: Config, inForce: Readonly<Record<string, Setting['value']>> = {}): Configuration {
  const settings = rows.map(([key, value, { variable, ...changed } = {}]): Setting => {
    const flag = variable && flagOf(variable)
    const held = Object.hasOwn(inForce, key) ? inForce[key]! : value(config)
    return { key, value: held, ...(flag && { flag }), ...(variable && { variable }), ...changed }
  })
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
