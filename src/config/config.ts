import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import { parsePrice } from '../schema/amount.ts'
import { CONNECTIONS_PER_ADDRESS } from '../schema/limits.ts'
import type { Network } from '../schema/primitives.ts'
import { ConfigError } from './config-error.ts'
import { readConfigFile } from './config-file.ts'
import { type Env, type Environment, readEnv } from './env.ts'
import { overKeys, readKeysFile } from './keys-file.ts'
import { defaultListenHosts } from './listen-hosts.ts'
import { checkPorts } from './port-clash.ts'
import { publicSettings } from './public-settings.ts'
import { createSecrets, type Secrets } from './secrets.ts'
import { layered, type Settings, settingEntries } from './settings.ts'

const rpcUrls: Record<Network, string | undefined> = {
  'eip155:84532': 'https://sepolia.base.org',
  'eip155:8453': 'https://mainnet.base.org',
}
/** No default on the real network: sellers choose whom they trust to settle. */
const facilitatorUrls: Record<Network, string | undefined> = {
  'eip155:84532': 'https://x402.org/facilitator',
  'eip155:8453': undefined,
}

const P2P_PORT = 4001
const API_PORT = 8424
const CONCURRENT_RUNS_MAX = 16
/** One day: a seller that is away for hours still claims in time. */
const CHANNEL_WITHDRAW_DELAY_SECONDS = 86_400
const DRAIN_SECONDS = 2
/** A paid call takes two requests. One peer at this rate leaves more than half of a core to the others. */
const PEER_REQUESTS_PER_SECOND = 2000

/**
 * Reads every source and merges them: flag over environment over config.yaml over default (D4).
 *
 * config.yaml and keys.env are in the data directory, so only a flag or a variable can name that directory.
 *
 * @returns hidden: values from keys.env that must not be printed
 * @throws ConfigError with a line for each value that cannot be used
 */
export async function loadConfig(
  flags: Settings,
  environment: Environment,
): Promise<{ config: Config; secrets: Secrets; hidden: string[] }> {
  const env = readEnv(environment)
  const dataDir = resolveDataDir(flags, env)
  const keys = await readKeysFile(join(dataDir, 'keys.env'))
  const withKeys = overKeys(keys, environment)
  const secrets = createSecrets(readEnv(withKeys), withKeys)
  const file = await readConfigFile(join(dataDir, 'config.yaml'))
  const config = createConfig({ ...layered(flags, settingsOf(env), file), dataDir })
  return { config, secrets, hidden: Object.values(keys).filter((key) => key !== undefined) }
}

/** The path of the data directory. Reads no files. */
export function resolveDataDir(flags: Pick<Settings, 'dataDir'>, env: Pick<Env, 'NODE_DATA_DIR'>): string {
  const given = flags.dataDir ?? env.NODE_DATA_DIR
  if (given === undefined) return join(homeDirectory(), '.stoa')
  // A shell expands ~ only in some places, and an .env file or a unit file never does.
  return given === '~' || given.startsWith('~/') ? join(homeDirectory(), given.slice(1)) : resolve(given)
}

/** @throws ConfigError where HOME is unknown or relative: keys would land in the folder that a command runs in */
function homeDirectory(): string {
  const fix = 'set HOME to an absolute path, or name the data directory with --data-dir or NODE_DATA_DIR'
  let home: string
  try {
    home = homedir()
  } catch (cause) {
    throw new ConfigError(`this user has no home directory: ${fix}`, { cause })
  }
  if (!isAbsolute(home)) throw new ConfigError(`HOME is ${home === '' ? 'empty' : `the relative path ${home}`}: ${fix}`)
  return home
}

/**
 * Every setting that decides how a node behaves and is not secret. Complete: no part of the node reads further sources.
 */
export type Config = ReturnType<typeof createConfig>

/** Fills in the defaults. A setting without a default may be undefined. @throws ConfigError for settings that do not fit together */
export function createConfig(settings: Settings & { dataDir: string }) {
  const config = withDefaults(settings)
  const { p2p, api, public: door } = config
  checkPorts([
    { key: 'p2p.port', hosts: p2p.listenHosts, port: p2p.port },
    { key: 'api.port', hosts: [api.host], port: api.enabled ? api.port : undefined },
    { key: 'public.port', hosts: [door.host], port: door.port },
  ])
  return config
}

function withDefaults(settings: Settings & { dataDir: string }) {
  const network = settings.network ?? 'eip155:84532'
  const rpcUrl = settings.rpcUrl ?? rpcUrls[network]
  /** Nobody believes a deposit without reading the chain. */
  const channels = rpcUrl === undefined ? ('off' as const) : ('auto' as const)
  return {
    /** Absolute path. */
    dataDir: settings.dataDir,
    nodeName: settings.nodeName,
    /** Where the HTTP side is reached from elsewhere. No slash at the end. */
    publicUrl: settings.publicUrl,
    network,
    rpcUrl,
    facilitatorUrl: settings.facilitatorUrl ?? facilitatorUrls[network],
    /** Facilitators to use, in this order, if the first cannot be reached. */
    facilitatorFallbacks: settings.facilitatorFallbacks ?? [],
    /** Headers for the first facilitator, each `Name=VARIABLE`. */
    facilitatorHeaders: settings.facilitatorHeaders ?? [],
    p2p: {
      port: settings.port ?? P2P_PORT,
      /** Port of the market host, which a node with its ledger in PostgreSQL has. 0: any free port. */
      marketPort: settings.marketPort ?? 0,
      listenHosts: settings.listenHosts ?? defaultListenHosts(),
      bootstrap: settings.bootstrap ?? [],
      announce: settings.announce ?? [],
      mdns: settings.mdns ?? true,
      relays: settings.relays ?? [],
      relay: settings.relay ?? false,
      upnp: settings.upnp ?? false,
      /** True: dial private addresses in listings of others. Undefined: derived from the bootstrap addresses. */
      dialPrivate: settings.dialPrivate,
      publicDht: settings.publicDht ?? looksForMarket(settings),
      connectionsPerAddress: settings.connectionsPerAddress ?? CONNECTIONS_PER_ADDRESS,
    },
    api: {
      host: settings.apiHost ?? '127.0.0.1',
      port: settings.apiPort ?? API_PORT,
      corsOrigins: settings.corsOrigins ?? [],
      allowedHosts: settings.allowedHosts ?? [],
      insecureOpen: settings.insecureOpenApi ?? false,
      /** On loopback, also require a token. */
      requireToken: settings.requireToken ?? false,
      enabled: settings.apiEnabled ?? true,
    },
    public: publicSettings(settings),
    buyer: {
      maxPriceAtomic: settings.maxPriceAtomic ?? parsePrice('1'),
      dailyBudgetAtomic: settings.dailyBudgetAtomic ?? parsePrice('5'),
      sellerBudgetAtomic: settings.sellerBudgetAtomic,
      monthlyBudgetAtomic: settings.monthlyBudgetAtomic,
      /** Undefined: the node rates agents on the chain only on request. */
      rateEvery: settings.rateEvery,
      autoApproveBelowAtomic: settings.autoApproveBelowAtomic,
      approvalMinutes: settings.approvalMinutes,
      /** The longest window, in seconds, of a payment that this node signs. */
      maxWindowSeconds: settings.maxWindowSeconds,
      /** True: sellers that settle before their agent runs may be paid. */
      allowSettleFirst: settings.allowSettleFirst ?? true,
      /** True: a result of a purchase comes with the transaction that settled it. */
      awaitSettlement: settings.awaitSettlement ?? false,
      /** Origins of own networks from which may be bought over HTTP, also without TLS. */
      privateOrigins: settings.privateOrigins ?? [],
      channels: {
        /** `auto`: cheap and frequent calls are paid by payment channels. */
        mode: settings.channels ?? channels,
        /** False for a node of one command, which could not look after a channel: it opens one only if a call wants it. */
        opensByRule: true as boolean,
        /** Calls that a voucher may cover ahead, at a seller with a good record. */
        aheadCalls: settings.channelAhead ?? 10,
        /** The most that is deposited at one seller. */
        depositMax: settings.channelDepositMaxAtomic ?? parsePrice('1'),
        /** A channel that nobody has used for this long is closed. */
        idleMs: (settings.channelIdleHours ?? 24) * 60 * 60 * 1000,
      },
      allow: settings.buyFrom,
      deny: settings.neverBuyFrom,
    },
    seller: {
      settleFirst: settings.settleFirst ?? false,
      keepListed: settings.keepListed ?? false,
      /** How long calls under way may go on when the node stops. */
      drainSeconds: settings.drainSeconds ?? DRAIN_SECONDS,
      concurrentRunsMax: settings.concurrentRunsMax ?? CONCURRENT_RUNS_MAX,
      peerRequestsPerSecond: settings.peerRequestsPerSecond ?? PEER_REQUESTS_PER_SECOND,
      /** Undefined: the defaults of payments/exposure. */
      unsettledPerPayerAtomic: settings.unsettledPerPayerAtomic,
      unsettledMaxAtomic: settings.unsettledMaxAtomic,
      checkFundsFromAtomic: settings.checkFundsFromAtomic,
      /** `auto`: payment channels are offered where an RPC is configured. */
      channels: settings.sellerChannels ?? channels,
      /** What a payment channel may owe before it is claimed at once. */
      channelClaimThresholdAtomic: settings.channelClaimThresholdAtomic ?? parsePrice('1'),
      /** Seconds that a payer's withdrawal from a channel must take at least. */
      channelWithdrawDelaySeconds: settings.channelWithdrawDelay ?? CHANNEL_WITHDRAW_DELAY_SECONDS,
      /** The smallest deposit into a channel that this node sends to the chain. */
      channelMinDepositAtomic: settings.channelMinDepositAtomic ?? parsePrice('0.1'),
      block: settings.block,
    },
    openai: {
      enabled: settings.openaiDoor ?? false,
      /** What clients without a token of their own may spend per UTC day. */
      dailyBudgetAtomic: settings.openaiDailyBudgetAtomic ?? parsePrice('1'),
      /** The most that `auto` pays for one call, unless a request allows more. */
      maxPriceAtomic: settings.openaiMaxPriceAtomic ?? parsePrice('0.01'),
    },
    webhooks: settings.webhooks ?? [],
    /** Catalogs of x402 resources that are searched beside the market. */
    sources: settings.sources ?? [],
    log: { level: settings.logLevel ?? 'info' },
  }
}

function settingsOf(env: Env): Settings {
  return Object.fromEntries(settingEntries.map(([name, { variable }]) => [name, variable && env[variable]]))
}

/** D43: without bootstrap peers a node searches the public DHT, unless it listens on loopback only. */
function looksForMarket({ bootstrap = [], listenHosts = [] }: Settings): boolean {
  const isLocal = listenHosts.length > 0 && listenHosts.every((host) => host === '::1' || host.startsWith('127.'))
  return bootstrap.length === 0 && !isLocal
}
