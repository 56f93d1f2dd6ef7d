import * as z from 'zod'
import { ConfigError, describeRefusal } from './config-error.ts'
import { DatabaseUrlText } from './database-url.ts'
import {
  AbsolutePathText,
  AnnounceList,
  ApiKeyText,
  BootstrapList,
  countText,
  HostText,
  IpList,
  NetworkList,
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
    description: 'Directory with the keys, the database and the settings. Only one node can run on a directory.',
    fallback: '`~/.stoa`',
    flag: '--data-dir',
  }),
  NODE_NAME: row(NodeNameText, {
    description:
      'Name of this node in its listings and on its dashboard. Names are not unique. Buyers tell sellers apart by peer id.',
    fallback: 'none',
    flag: '--node-name',
  }),
  NODE_PUBLIC_URL: row(PublicUrlText, {
    description:
      'Public URL of the HTTP API, such as `https://node.example`. The registration files of agents on the chain name their A2A and MCP services at this URL. The setting does not open the API: see `api.allowed_hosts`.',
    fallback: 'none: registration files name only libp2p addresses',
  }),
  NODE_NETWORK: row(NetworkText, {
    description:
      'Network on which payments settle, as a CAIP-2 id: `eip155:84532` (Base Sepolia, test money) or `eip155:8453` (Base, real money).',
    fallback: '`eip155:84532`',
    flag: '--network',
  }),
  ETHEREUM_RPC_URL: row(RpcUrlText, {
    description: 'JSON-RPC endpoint of that network. The URL often contains a key, so the node shows only its host.',
    fallback: '`https://sepolia.base.org` or `https://mainnet.base.org`',
    flag: '--rpc-url',
    secret: true,
  }),
  FACILITATOR_URL: row(UrlText, {
    description: 'x402 v2 facilitator that settles payments on the chain.',
    fallback: '`https://x402.org/facilitator` on Base Sepolia; none on Base, where a seller must set one',
    flag: '--facilitator-url',
  }),
  ETHEREUM_PRIVATE_KEY: row(PrivateKeyText, {
    description: 'Private key of the wallet: 64 hex digits, with or without `0x`. Overrides the two role keys below.',
    fallback: 'the node creates a key and stores it in `wallet.key`',
    secret: true,
  }),
  SELLER_PRIVATE_KEY: row(PrivateKeyText, {
    description:
      'Wallet key for a container that sells. Used if `ETHEREUM_PRIVATE_KEY` is not set. Must not differ from `BUYER_PRIVATE_KEY`.',
    secret: true,
  }),
  BUYER_PRIVATE_KEY: row(PrivateKeyText, {
    description: 'Wallet key for a container that buys. Used like `SELLER_PRIVATE_KEY`.',
    secret: true,
  }),
  NODE_ANNOUNCE_ADDR: row(AnnounceList, {
    description:
      'Addresses to announce in addition to the detected addresses: multiaddrs such as `/ip4/203.0.113.7/tcp/4001`, separated by commas.',
    flag: '--announce',
  }),
  NODE_LISTEN_HOST: row(IpList, {
    description: 'IP addresses on which the node listens for peers, separated by commas.',
    fallback: '`0.0.0.0`, and `::` if the machine has IPv6',
  }),
  BOOTSTRAP_PEERS: row(BootstrapList, {
    description:
      'Peers to connect to first, separated by commas: multiaddrs that end in `/p2p/<peer id>`, or `/dnsaddr/<name>`, whose TXT records hold such multiaddrs.',
    flag: '--bootstrap',
  }),
  RELAY_PEERS: row(BootstrapList, {
    description:
      'Relays to use if nobody can dial this node: multiaddrs as above. The node also finds relays among its peers.',
    flag: '--relay-via',
  }),
  NODE_RELAY: row(SwitchText, {
    description:
      'Whether to act as a relay for nodes that nobody can dial. Needs a public address. A relay serves at most 128 nodes, and at most 64 MiB and 10 minutes per connection.',
    fallback: '`false`',
    flag: '--relay',
  }),
  NODE_UPNP: row(SwitchText, {
    description: 'Whether to ask the router by UPnP to forward the peer port to this machine.',
    fallback: '`false`',
    flag: '--upnp',
  }),
  NODE_DIAL_PRIVATE: row(SwitchText, {
    description:
      'Whether to dial private addresses and names from listings of others, for a market on your own network. Otherwise the node dials such an address only for a peer that it has met there.',
    fallback: '`true` if a bootstrap peer or relay has a private address, otherwise `false`',
  }),
  NODE_CONNECTIONS_PER_ADDRESS: row(countText(10_000), {
    description:
      'Connections that one IP address (or one /64 of IPv6) may have open to this node. Raise the number if many honest peers share an address.',
    fallback: '64',
  }),
  NODE_PUBLIC_DHT: row(SwitchText, {
    description:
      'Whether to find the market and be found in the public DHT of libp2p, as a client. The DHT shows the address of this node.',
    fallback: '`true` without a bootstrap peer; `false` with a bootstrap peer, or if the node listens only on loopback',
    flag: '--no-public-dht',
  }),
  NODE_API_HOST: row(HostText, {
    description: 'Address on which the HTTP API listens. On any address but loopback, requests need the API token.',
    fallback: '`127.0.0.1`',
    flag: '--api-host',
  }),
  NODE_API_PORT: row(PortText, {
    description: 'Port of the HTTP API; 0 means any free port.',
    fallback: '`8424`',
    flag: '--api-port',
  }),
  NODE_API_TOKEN: row(TokenText, {
    description: 'Bearer token of the HTTP API, at least 16 characters.',
    fallback: 'the node creates a token and stores it in `api.token`',
    secret: true,
  }),
  NODE_CORS_ORIGINS: row(OriginList, {
    description:
      'Web origins whose pages may use the whole API, separated by commas, in addition to loopback origins. `*` is refused, because these pages can spend.',
    fallback: 'none',
  }),
  NODE_PUBLIC_PORT: row(PortText, {
    description: 'Port of the listener where strangers buy over HTTP; 0 means any free port. See [doors](doors.md).',
    fallback: 'none: strangers cannot buy over HTTP',
    flag: '--public-port',
  }),
  NODE_PUBLIC_HOST: row(HostText, {
    description: 'Address on which that listener listens.',
    fallback: '`::`, or `0.0.0.0` if the machine has no IPv6',
    flag: '--public-host',
  }),
  NODE_PUBLIC_LISTENER_URL: row(PublicUrlText, {
    description:
      'Where clients reach that listener, such as `https://agents.example.org`. It stands in every offer and receipt. `NODE_PUBLIC_URL` is the API.',
    fallback: 'its own address',
    flag: '--public-listener-url',
  }),
  NODE_PUBLIC_TLS_CERT_FILE: row(AbsolutePathText, {
    description: 'PEM file with the certificate of that listener and its chain. It is read again when it changes.',
    fallback: 'none: plain HTTP',
    flag: '--public-tls-cert',
  }),
  NODE_PUBLIC_TLS_KEY_FILE: row(AbsolutePathText, {
    description: 'PEM file with the private key of that certificate, without a passphrase.',
    flag: '--public-tls-key',
  }),
  NODE_PUBLIC_TRUSTED_PROXIES: row(NetworkList, {
    description:
      'Proxies before that listener whose `X-Forwarded-For` is believed: IP addresses and networks, separated by commas.',
    fallback: 'none',
    flag: '--public-trusted-proxy',
  }),
  NODE_MAX_PRICE: row(UsdcText, {
    description: 'The most that this node pays for one call, in USDC.',
    fallback: '`1`',
    flag: '--max-price',
  }),
  NODE_DAILY_BUDGET: row(UsdcText, {
    description: 'The most that this node pays per day (UTC), in USDC.',
    fallback: '`5`',
    flag: '--daily-budget',
  }),
  NODE_MONTHLY_BUDGET: row(UsdcText, {
    description: 'The most that this node pays per month (UTC), in USDC.',
    fallback: 'no limit',
    flag: '--monthly-budget',
  }),
  NODE_AUTO_APPROVE_BELOW: row(UsdcText, {
    description: 'A call that costs this or more waits for an approval (`stoa approvals`).',
    fallback: 'no call waits',
    flag: '--auto-approve-below',
  }),
  NODE_PEER_REQUESTS_PER_SECOND: row(countText(1_000_000), {
    description:
      'Requests per second that one peer may send to this node. A paid call is two requests. A burst may have twice as many.',
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
    description: 'Secret of that key, base64 or PEM. Its signatures go only to the CDP facilitator.',
    secret: true,
  }),
  DATABASE_URL: row(DatabaseUrlText, {
    description:
      'PostgreSQL database that keeps the ledger: `postgres://user:password@host:5432/database`, with `?sslmode=verify-full` for TLS. Listings and peers stay in `stoa.db`. See [PostgreSQL](#postgresql).',
    fallback: 'none: the ledger is in `stoa.db`',
    secret: true,
  }),
  NO_COLOR: row(z.string(), { description: 'Any value turns off color in terminal output.' }),
  FORCE_COLOR: row(z.string(), {
    description: 'Any value but `0` turns on color, even if the output is not a terminal. `NO_COLOR` overrides it.',
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

/** True if a variable's value must never be shown. @internal Exported for its test. */
export function isSecret(name: string): boolean {
  return rowOf(name)?.secret === true
}

/** The flag of `stoa start` that overrides a variable. */
export function flagOf(name: VariableName): string | undefined {
  return rowOf(name)?.flag
}

/** The Markdown table of all variables for docs/operations.md. @internal Exported for the test of that page. */
export function variablesTable(): string {
  const lines = Object.keys(Env.shape).map((name) => {
    const { description = '', fallback = '', flag } = rowOf(name) ?? {}
    const shownFlag = flag === undefined ? '' : `\`${flag}\``
    return `| \`${name}\` | ${description} | ${fallback} | ${shownFlag} |`
  })
  return ['| Variable | Meaning | Default | Flag |', '|---|---|---|---|', ...lines].join('\n')
}

function row<T extends z.ZodType>(schema: T, documentation: VariableRow): z.ZodOptional<T> {
  const optional = z.optional(schema)
  rows.add(optional, documentation)
  return optional
}

function rowOf(name: string): VariableRow | undefined {
  return Object.hasOwn(Env.shape, name) ? rows.get(Env.shape[name as VariableName]) : undefined
}
