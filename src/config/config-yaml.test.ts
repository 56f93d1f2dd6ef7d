import { expect, test } from 'vitest'
import { configKeys, parseConfigYaml } from './config-yaml.ts'

const parse = (text: string) => parseConfigYaml(text, 'config.yaml')

test('every key is read', () => {
  const settings = parse(`
# what a node may be told in its data directory
name: Corner shop
public_url: https://node.example.org/stoa/
network: eip155:8453
rpc_url: https://rpc.example.org/v2/key
facilitator_url: https://pay.example.org
p2p:
  port: 4002
  market_port: 4003
  listen_hosts: [0.0.0.0, "::"]
  bootstrap:
    - /ip4/203.0.113.7/tcp/4001/p2p/12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz
  announce: /ip4/203.0.113.7/tcp/4001
  mdns: no
  relays: /ip4/203.0.113.8/tcp/4001/p2p/12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz
  relay: on
  upnp: true
  dial_private: true
  public_dht: yes
  connections_per_address: 8
api: {host: "::1", port: 0, cors_origins: [https://app.example.org], allowed_hosts: node.example.org, insecure_open: false,
  require_token: true}
public: {host: 0.0.0.0, port: 8425, url: https://agents.example/, tls_cert: /tls/cert.pem, tls_key: /tls/key.pem, trusted_proxies: [127.0.0.1, 10.0.0.0/8]}
facilitator: {headers_env: X-Api-Key=F_KEY, fallbacks: [https://second.example, https://third.example]}
buyer: {max_price: 0.30, daily_budget: 12.000001, rate_every: 10, monthly_budget: 100, seller_daily_budget: 2, auto_approve_below: 0.1,
  approval_minutes: 5, max_window_seconds: 300, allow_settle_first: false, await_settlement: true, private_origins: ["http://127.0.0.1:4021"], channels: auto,
  channel_ahead: 5, channel_deposit_max: 0.5, channel_idle_hours: 48, allow: [a, b], deny: did:peer:0z6Mk}
seller: {settle_first: true, keep_listed: yes, drain_seconds: 30, concurrent_runs: 4, peer_requests_per_second: 50,
  unsettled_per_payer: 2, unsettled_max: 20, check_funds_from: 0.5, block: [a],
  channels: auto, channel_claim_threshold: 3, channel_withdraw_delay: 3600, channel_min_deposit: 0.2}
openai_door: true
openai_daily_budget: 2
openai_max_price: 0.02
log: {level: warn}
`)
  expect(settings).toEqual({
    network: 'eip155:8453',
    rpcUrl: 'https://rpc.example.org/v2/key',
    facilitatorUrl: 'https://pay.example.org',
    port: 4002,
    marketPort: 4003,
    listenHosts: ['0.0.0.0', '::'],
    bootstrap: ['/ip4/203.0.113.7/tcp/4001/p2p/12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz'],
    announce: ['/ip4/203.0.113.7/tcp/4001'],
    mdns: false,
    relays: ['/ip4/203.0.113.8/tcp/4001/p2p/12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz'],
    relay: true,
    upnp: true,
    openaiDoor: true,
    openaiDailyBudgetAtomic: 2_000_000n,
    openaiMaxPriceAtomic: 20_000n,
    channelIdleHours: 48,
    nodeName: 'Corner shop',
    publicUrl: 'https://node.example.org/stoa',
    facilitatorHeaders: ['X-Api-Key=F_KEY'],
    facilitatorFallbacks: ['https://second.example', 'https://third.example'],
    publicDht: true,
    connectionsPerAddress: 8,
    dialPrivate: true,
    apiHost: '::1',
    apiPort: 0,
    corsOrigins: ['https://app.example.org'],
    allowedHosts: ['node.example.org'],
    insecureOpenApi: false,
    requireToken: true,
    publicHost: '0.0.0.0',
    publicPort: 8425,
    publicDoorUrl: 'https://agents.example',
    publicTlsCert: '/tls/cert.pem',
    publicTlsKey: '/tls/key.pem',
    trustedProxies: ['127.0.0.1', '10.0.0.0/8'],
    maxPriceAtomic: 300_000n,
    dailyBudgetAtomic: 12_000_001n,
    monthlyBudgetAtomic: 100_000_000n,
    rateEvery: 10,
    sellerBudgetAtomic: 2_000_000n,
    autoApproveBelowAtomic: 100_000n,
    approvalMinutes: 5,
    maxWindowSeconds: 300,
    allowSettleFirst: false,
    awaitSettlement: true,
    privateOrigins: ['http://127.0.0.1:4021'],
    channels: 'auto',
    channelAhead: 5,
    channelDepositMaxAtomic: 500_000n,
    buyFrom: ['a', 'b'],
    neverBuyFrom: ['did:peer:0z6Mk'],
    settleFirst: true,
    keepListed: true,
    drainSeconds: 30,
    concurrentRunsMax: 4,
    peerRequestsPerSecond: 50,
    unsettledPerPayerAtomic: 2_000_000n,
    unsettledMaxAtomic: 20_000_000n,
    checkFundsFromAtomic: 500_000n,
    sellerChannels: 'auto',
    channelClaimThresholdAtomic: 3_000_000n,
    channelWithdrawDelay: 3_600,
    channelMinDepositAtomic: 200_000n,
    block: ['a'],
    logLevel: 'warn',
  })
  expect(Object.keys(settings)).toHaveLength(configKeys.length)
})

test('an empty file, an empty value and an empty group set nothing', () => {
  for (const text of ['', '# nothing\n', 'network:\np2p:\n', 'rpc_url: null\nbuyer: ~', 'p2p: {}']) {
    expect(parse(text)).toEqual({})
  }
})

test.each([
  ['network: base\n', 'config.yaml:1: network: "base" is not valid: expected one of eip155:84532'],
  ['\np2p:\n  port: 70000\n', 'config.yaml:3: p2p.port: "70000" is not valid: expected a port, 0 to 65535'],
  ['p2p:\n  prot: 4001\n', 'config.yaml:2: "p2p.prot" is not a setting: did you mean p2p.port?'],
  ['netwrok: x\n', 'config.yaml:1: "netwrok" is not a setting: did you mean network?'],
  [
    'something_old: x\n',
    'config.yaml:1: "something_old" is not a setting: expected one of name, public_url, network, rpc_url, facilitator_url, openai_door, openai_daily_budget, openai_max_price, facilitator, p2p, api, public, buyer, seller, log, webhooks, sources',
  ],
  ['log:\n  something: x\n', 'config.yaml:2: "log.something" is not a setting: expected log.level'],
  ['nmae: x\n', 'config.yaml:1: "nmae" is not a setting: did you mean name?'],
  ['p2p: 4001\n', 'config.yaml:1: expected settings under p2p, such as p2p: { port: … }'],
  ['- network\n', 'config.yaml:1: expected settings, such as network: eip155:84532'],
  ['network: [a, b]\n', 'config.yaml:1: network: expected one value, not a list'],
  ['network: {a: b}\n', 'config.yaml:1: network: expected a plain value or a list of them'],
  [
    'buyer:\n  max_price: 0.30000000000000000001\n',
    'config.yaml:2: buyer.max_price: "0.30000000000000000001" is not valid',
  ],
  ['buyer: {daily_budget: -1}\n', 'config.yaml:1: buyer.daily_budget: "-1" is not valid: expected an amount in USDC'],
  ['network: eip155:84532\nnetwork: eip155:8453\n', 'config.yaml:2: not valid YAML: Map keys must be unique'],
  ['p2p: [\n', 'config.yaml:2: not valid YAML'],
  ['__proto__: {a: 1}\n', 'config.yaml:1: "__proto__" is not a setting'],
  ['constructor: 1\n', 'config.yaml:1: "constructor" is not a setting'],
])('refuses %j with file, line and what is expected', (text, message) => {
  expect(() => parse(text)).toThrow(message)
})

test('a key or token in the file is refused and not shown; the error names where it belongs (T21)', () => {
  for (const name of ['private_key', 'openai_api_key', 'api.token', 'wallet_secret']) {
    const text = name.startsWith('api.') ? 'api:\n  token: hunter2hunter2hunter2\n' : `${name}: hunter2hunter2hunter2\n`
    expect(() => parse(text)).toThrow(/this file never holds keys or tokens; set them in the environment/)
    expect(() => parse(text)).not.toThrow(/hunter2/)
  }
  expect(() => parse('rpc_url: wss://host/hunter2')).toThrow(/^config.yaml:1: rpc_url: the value is not valid/)
})

test('every mistake is reported at once', () => {
  expect(() => parse('network: x\np2p: {port: y}\nlog: {level: z}')).toThrow(/:1: .*\n.*:2: .*\n.*:3: /)
})

test.each([
  ['sources: 3', 'c:1: sources: expected a list: begin each entry with "- " in a line of its own'],
  [
    'sources: { url: https://a.example }',
    'c:1: sources: expected a list: begin each entry with "- " in a line of its own',
  ],
  [
    'sources: [https://a.example]',
    'c:1: sources.0: expected settings: url, name, token_env, headers_env, allow_private',
  ],
  ['sources:\n  - name: a', 'c:2: sources.0.url: is missing'],
  [
    'sources:\n  - url: https://a.example\n    token_evn: A',
    'c:2: sources.0: "token_evn" is not known: did you mean token_env?',
  ],
  [
    'sources:\n  - url: https://a.example\n  - url: https://b.example\n    headers_env: A=B',
    'c:4: sources.1.headers_env: expected a list',
  ],
  ['sources:\n  - url: https://a.example\n    name: [b]', 'c:3: sources.0.name: expected one value, not a list'],
  ['webhooks:\n  - url: https://a.example', 'c:2: webhooks.0.secret_env: is missing'],
])('%j says what is wrong, and where', (yaml, said) => {
  expect(() => parseConfigYaml(yaml, 'c')).toThrow(said)
})

test('webhooks are a list of URLs; a secret is never read from the file', () => {
  const yaml = 'webhooks:\n  - url: http://127.0.0.1:9/x\n    secret_env: HOOK\n    events: [payment.settled, order]\n'
  expect(parseConfigYaml(yaml, 'c')).toEqual({
    webhooks: [{ url: 'http://127.0.0.1:9/x', secret_env: 'HOOK', events: ['payment.settled', 'order'] }],
  })
  for (const [wrong, message] of [
    ['webhooks:\n  - url: ftp://x\n    secret_env: HOOK\n    events: [order]', 'webhooks.0.url: must be an http'],
    ['webhooks:\n  - url: http://x\n    secret: abc\n    events: [order]', 'webhooks.0.secret_env: '],
    ['webhooks:\n  - url: http://x\n    secret_env: HOOK\n    events: [status]', 'webhooks.0.events.0: must be one of'],
    ['webhooks: yes', 'webhooks: '],
  ] as const) {
    expect(() => parseConfigYaml(wrong, 'c')).toThrow(message)
  }
})

test('catalogs are read as a list, and each mistake is named', () => {
  const text = `sources:
  - url: https://api.example/x402
  - { url: http://127.0.0.1:4021, name: here, allow_private: true, token_env: KEY, headers_env: [X-Api-Key=OTHER] }
`
  expect(parseConfigYaml(text, 'c').sources).toEqual([
    { url: 'https://api.example/x402' },
    {
      url: 'http://127.0.0.1:4021',
      name: 'here',
      allow_private: 'true',
      token_env: 'KEY',
      headers_env: ['X-Api-Key=OTHER'],
    },
  ])
  const refused = (line: string) => () => parseConfigYaml(`sources:\n${line}\n`, 'c')
  for (const url of [
    'http://api.example',
    'ftp://x',
    'https://u:p@x.example',
    'https://x.example/?key=1',
    'x',
    'https://x.example/#a',
  ]) {
    expect(refused(`  - { url: "${url}" }`)).toThrow(/c:2: sources\.0\.url: must be an https URL/)
  }
  expect(refused('  - { url: "https://a.example", token: secret }')).toThrow(/token/)
  expect(refused('  - { url: "https://a.example", name: "A b" }')).toThrow(/sources\.0\.name/)
  expect(refused('  - { url: "https://a.example", allow_private: maybe }')).toThrow(/must be true or false/)
  expect(refused('  - { url: "https://a.example/1" }\n  - { url: "https://a.example/2" }')).toThrow(/same name/)
  expect(refused([...Array(9).keys()].map((at) => `  - { url: "https://a${at}.example" }`).join('\n'))).toThrow(
    /sources/,
  )
})
