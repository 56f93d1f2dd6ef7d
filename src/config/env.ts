import * as z from 'zod'
import { ConfigError, describeRefusal } from './config-error.ts'
import {
  AnnounceList,
  ApiKeyText,
  BootstrapList,
  countText,
  HostText,
  IpList,
  NetworkText,
  NodeNameText,
  OriginList,
  PathText,
  PortText,
  PrivateKeyText,
  PublicUrlText,
  RpcUrlText,
  SwitchText,
  TokenText,
  UrlText,
  UsdcText,
} from './values.ts'

/** Environment variables as the operating system gives them to a process. */
export type Environment = Readonly<Record<string, string | undefined>>

type VariableRow = {
  description: string
  /** The value if the variable is unset. */
  fallback?: string
  /** The flag of `stoa start` that overrides it. */
  flag?: string
  /** The value is never shown. */
  secret?: true
}
const rows = z.registry<VariableRow>()

/** Every variable the node reads (D4): its parser and its row in the documentation. */
export const Env = z.object({
  NODE_DATA_DIR: row(PathText, {
    description: 'The directory that holds keys, database and settings. One running node per directory.',
    fallback: '`~/.stoa`',
    flag: '--data-dir',
  }),
  NODE_NAME: row(NodeNameText, {
    description:
      'How this node calls itself, in its listings and on its dashboard. Anybody can take any name: buyers tell sellers apart by their peer ids.',
    fallback: 'none',
    flag: '--node-name',
  }),
  NODE_PUBLIC_URL: row(PublicUrlText, {
    description:
      'Where the HTTP side of this node is reached from elsewhere, such as `https://node.example`: the registration files of its agents on the chain name their A2A and MCP services there. It opens nothing: see `api.allowed_hosts`.',
    fallback: 'none: they name libp2p addresses only',
  }),
  NODE_NETWORK: row(NetworkText, {
    description:
      'Where payments settle, as a CAIP-2 id: `eip155:84532` (Base Sepolia, test money) or `eip155:8453` (Base, real money).',
    fallback: '`eip155:84532`',
    flag: '--network',
  }),
  ETHEREUM_RPC_URL: row(RpcUrlText, {
    description: 'JSON-RPC endpoint of that network. It often holds a key, so only its host is ever shown.',
    fallback: '`https://sepolia.base.org` or `https://mainnet.base.org`',
    flag: '--rpc-url',
    secret: true,
  }),
  FACILITATOR_URL: row(UrlText, {
    description: 'x402 v2 facilitator that puts payments on the chain.',
    fallback: '`https://x402.org/facilitator` on the test network; none on Base, where a seller must name one',
    flag: '--facilitator-url',
  }),
  ETHEREUM_PRIVATE_KEY: row(PrivateKeyText, {
    description:
      'Key of the wallet that pays and is paid, 64 hex digits with or without `0x`. Goes before the two role keys below.',
    fallback: 'a key made once and kept in `wallet.key`',
    secret: true,
  }),
  SELLER_PRIVATE_KEY: row(PrivateKeyText, {
    description:
      'The wallet key in a container that sells. Used when `ETHEREUM_PRIVATE_KEY` is unset; it and `BUYER_PRIVATE_KEY` set to different keys is an error.',
    secret: true,
  }),
  BUYER_PRIVATE_KEY: row(PrivateKeyText, {
    description: 'The wallet key in a container that buys. As `SELLER_PRIVATE_KEY`.',
    secret: true,
  }),
  NODE_ANNOUNCE_ADDR: row(AnnounceList, {
    description:
      'Addresses to announce beside the detected ones: multiaddrs such as `/ip4/203.0.113.7/tcp/4001`, with commas.',
    flag: '--announce',
  }),
  NODE_LISTEN_HOST: row(IpList, {
    description: 'IP addresses on which the peer-to-peer side listens, with commas.',
    fallback: '`0.0.0.0`, and `::` where the machine has IPv6',
  }),
  BOOTSTRAP_PEERS: row(BootstrapList, {
    description:
      'First peers to meet: multiaddrs that end in `/p2p/<peer id>`, or `/dnsaddr/<name>`, whose TXT records name them; with commas.',
    flag: '--bootstrap',
  }),
  RELAY_PEERS: row(BootstrapList, {
    description:
      'Relays to be reached through where this node cannot be dialed: multiaddrs as above. Others are found among its peers.',
    flag: '--relay-via',
  }),
  NODE_RELAY: row(SwitchText, {
    description:
      'Whether to pass on calls to nodes that cannot be dialed: for a machine with a public address. At most 128 nodes, 64 MiB and 10 minutes for each connection.',
    fallback: '`false`',
    flag: '--relay',
  }),
  NODE_UPNP: row(SwitchText, {
    description: 'Whether to ask the router, by UPnP, to pass the peer port on to this machine.',
    fallback: '`false`',
    flag: '--upnp',
  }),
  NODE_DIAL_PRIVATE: row(SwitchText, {
    description:
      'Whether to dial private addresses and names that listings of others give: for a market on your own network. Otherwise only peers that this node has met there.',
    fallback: '`true` where a bootstrap peer or relay has a private address, else `false`',
  }),
  NODE_CONNECTIONS_PER_ADDRESS: row(countText(10_000), {
    description:
      'Connections that one IP address (or one /64 of IPv6) may have open to this node. Raise it where many honest peers share an address.',
    fallback: '64',
  }),
  NODE_PUBLIC_DHT: row(SwitchText, {
    description:
      'Whether to find the market, and be found, in the public DHT of libp2p, as a client of it. Its nodes see the address of this one.',
    fallback: '`true` without a bootstrap peer, `false` with one or where the node listens on loopback only',
    flag: '--no-public-dht',
  }),
  NODE_API_HOST: row(HostText, {
    description: 'Address the HTTP API listens on. Anywhere but loopback, requests need the API token.',
    fallback: '`127.0.0.1`',
    flag: '--api-host',
  }),
  NODE_API_PORT: row(PortText, {
    description: 'Port of the HTTP API; 0 takes any free one.',
    fallback: '`8424`',
    flag: '--api-port',
  }),
  NODE_API_TOKEN: row(TokenText, {
    description: 'Bearer token of the HTTP API, at least 16 characters.',
    fallback: 'a token made once and kept in `api.token`',
    secret: true,
  }),
  NODE_CORS_ORIGINS: row(OriginList, {
    description:
      'Web origins, beside loopback ones, whose pages may use the whole API, with commas. `*` is refused: such a page can spend.',
    fallback: 'none',
  }),
  NODE_MAX_PRICE: row(UsdcText, {
    description: 'The most this node pays for one call, in USDC.',
    fallback: '`1`',
    flag: '--max-price',
  }),
  NODE_DAILY_BUDGET: row(UsdcText, {
    description: 'The most it pays in one day (UTC).',
    fallback: '`5`',
    flag: '--daily-budget',
  }),
  NODE_MONTHLY_BUDGET: row(UsdcText, {
    description: 'The most it pays in one month (UTC).',
    fallback: 'no limit',
    flag: '--monthly-budget',
  }),
  NODE_AUTO_APPROVE_BELOW: row(UsdcText, {
    description: 'A call that costs this or more waits for an approval (`stoa approvals`).',
    fallback: 'none waits',
    flag: '--auto-approve-below',
  }),
  NODE_PEER_REQUESTS_PER_SECOND: row(countText(1_000_000), {
    description:
      'Requests that one peer may make of this node per second; a paid call is two. It may burst to twice that.',
    fallback: '`2000`',
  }),
  OPENAI_API_KEY: row(ApiKeyText, { description: 'Key for `openai/…` models.', secret: true }),
  OPENAI_BASE_URL: row(UrlText, {
    description: 'Base URL for `openai-compatible/…` models (vLLM, LM Studio, llama.cpp and others).',
  }),
  ANTHROPIC_API_KEY: row(ApiKeyText, { description: 'Key for `anthropic/…` models.', secret: true }),
  GOOGLE_API_KEY: row(ApiKeyText, { description: 'Key for `google/…` models.', secret: true }),
  OPENROUTER_API_KEY: row(ApiKeyText, { description: 'Key for `openrouter/…` models.', secret: true }),
  CDP_API_KEY_ID: row(z.string(), { description: 'Id of the key for the Coinbase CDP facilitator.', secret: true }),
  CDP_API_KEY_SECRET: row(z.string(), {
    description: 'Secret of that key, base64 or PEM. Only the CDP facilitator is shown what it signs.',
    secret: true,
  }),
  DATABASE_URL: row(z.string(), {
    description: 'Reserved for a database server. This version keeps everything in `stoa.db` and does not read it.',
    secret: true,
  }),
  NO_COLOR: row(z.string(), { description: 'Set to anything: no color in terminal output.' }),
  FORCE_COLOR: row(z.string(), {
    description: 'Set to anything but `0`: color even where output is not a terminal. `NO_COLOR` goes before it.',
  }),
})
export type Env = z.infer<typeof Env>
export type VariableName = keyof typeof Env.shape

/** The only place that reads the process's environment. Everything else receives it as an argument. */
export function processEnvironment(): Environment {
  return process.env
}

/** Reads and checks the variables above. Empty variables count as unset. @throws ConfigError that names each bad one */
export function readEnv(environment: Environment): Env {
  const given: Record<string, string> = {}
  for (const name of Object.keys(Env.shape)) {
    const text = environment[name]
    if (text !== undefined && text.trim() !== '') given[name] = text
  }
  const parsed = Env.safeParse(given)
  if (parsed.success) return parsed.data
  throw new ConfigError(
    parsed.error.issues.map((issue) => {
      const name = String(issue.path[0])
      return describeRefusal(name, isSecret(name) ? undefined : given[name], issue)
    }),
  )
}

/** The values of `environment` that must never be printed. */
export function secretValues(environment: Environment): string[] {
  return Object.keys(Env.shape)
    .filter(isSecret)
    .flatMap((name) => environment[name]?.trim() ?? [])
    .filter((value) => value !== '')
}

/** True if a variable's value must never be shown. */
export function isSecret(name: string): boolean {
  return rowOf(name)?.secret === true
}

/** The flag of `stoa start` that overrides a variable. */
export function flagOf(name: VariableName): string | undefined {
  return rowOf(name)?.flag
}

/** The Markdown table of all variables for docs/operations.md. */
export function variablesTable(): string {
  const lines = Object.keys(Env.shape).map((name) => {
    const { description = '', fallback = '', flag } = rowOf(name) ?? {}
    const shownFlag = flag === undefined ? '' : `\`${flag}\``
    return `| \`${name}\` | ${description} | ${fallback} | ${shownFlag} |`
  })
  return ['| Variable | What it sets | When unset | Flag |', '|---|---|---|---|', ...lines].join('\n')
}

function row<T extends z.ZodType>(schema: T, documentation: VariableRow): z.ZodOptional<T> {
  const optional = z.optional(schema)
  rows.add(optional, documentation)
  return optional
}

function rowOf(name: string): VariableRow | undefined {
  return Object.hasOwn(Env.shape, name) ? rows.get(Env.shape[name as VariableName]) : undefined
}
