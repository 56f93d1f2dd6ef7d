import { once } from 'node:events'
import { chmod, mkdir, stat, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import type { Diagnosis } from '../../src/schema/diagnosis.ts'
import { lockDataDir } from '../../src/store/lock.ts'
import { writeNodeFile } from '../../src/store/node-file.ts'
import { makeCertificate } from '../support/made-certificate.ts'
import { cli, peerId, type RunOptions, runningNode, status, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const now = Date.UTC(2026, 0, 1)
const free = ['--port', '0', '--api-port', '0']

type World = { chainId?: number; blockMs?: number; balance?: bigint; kinds?: unknown; rpcDown?: boolean }

/** RPC and facilitator behind one `fetch`. */
function world({ chainId = 84532, blockMs = now, balance = 5_000_000n, kinds, rpcDown = false }: World = {}) {
  const hex = (value: bigint | number) => `0x${value.toString(16)}`
  const answers: Record<string, () => unknown> = {
    eth_chainId: () => hex(chainId),
    eth_call: () => `0x${balance.toString(16).padStart(64, '0')}`,
    eth_getBlockByNumber: () => ({ number: '0x1', timestamp: hex(Math.floor(blockMs / 1000)) }),
  }
  const fetchFake = async (input: unknown, init?: RequestInit) => {
    if (String(input).endsWith('/supported')) {
      return Response.json({ kinds: kinds ?? [{ x402Version: 2, scheme: 'exact', network: 'eip155:84532' }] })
    }
    if (rpcDown)
      throw new TypeError('fetch failed', { cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }) })
    const { id, method } = JSON.parse(String(init?.body)) as { id: number; method: string }
    return Response.json({ jsonrpc: '2.0', id, result: answers[method]?.() })
  }
  return { fetch: fetchFake as typeof fetch, clock: { now: () => now } }
}

type Row = { id: string; state: string; text: string; fix?: string }
async function examine(
  argv: readonly string[],
  options: RunOptions,
): Promise<{ code: number; rows: Row[]; of(id: string): Row }> {
  const run = await cli(['doctor', '--json', ...argv], { dataDir: dataDir(), ...options })
  expect(run.stderr).toBe('')
  const { ok, checks: rows } = JSON.parse(run.stdout) as { ok: boolean; checks: Row[] }
  expect(ok).toBe(run.code === 0)
  return { code: run.code, rows, of: (id) => rows.find((row) => row.id === id)! }
}

test('a correct setup passes, and every check shows what it checked', async () => {
  await cli(['wallet', 'address'], { dataDir: dataDir() })
  const { code, rows } = await examine(free, { parts: world() })
  expect(rows.filter(({ state }) => state === 'fail')).toEqual([])
  expect(code).toBe(0)
  expect(Object.fromEntries(rows.map(({ id, state }) => [id, state]))).toEqual({
    node: 'skip',
    node_version: 'ok',
    open_files: 'ok',
    signatures: 'ok',
    data_dir: 'ok',
    key_files: 'ok',
    database: 'skip',
    ledger: 'ok',
    identity: 'ok',
    wallet_key: 'ok',
    agents: 'skip',
    public: 'skip',
    sources: 'skip',
    p2p_port: 'ok',
    api_port: 'ok',
    bootstrap: 'ok',
    reachability: 'skip',
    rpc: 'ok',
    clock: 'ok',
    balance: 'ok',
    facilitator: 'ok',
  })
})

test('doctor changes nothing and creates no data directory', async () => {
  const elsewhere = join(dataDir(), 'none')
  expect((await examine([...free, '--data-dir', elsewhere], { parts: world() })).of('data_dir').state).toBe('ok')
  await expect(stat(elsewhere)).rejects.toThrow(/ENOENT/)
})

test.each<[string, World, string, string, RegExp, RegExp]>([
  [
    'an RPC of another chain',
    { chainId: 1 },
    'rpc',
    'fail',
    /serves chain 1, but this node is on eip155:84532/,
    /ETHEREUM_RPC_URL/,
  ],
  ['no RPC (T15)', { rpcDown: true }, 'rpc', 'fail', /^sepolia\.base\.org does not answer/, /set an RPC that answers/],
  ['a clock behind the chain (T16)', { blockMs: now + 60_000 }, 'clock', 'fail', /^60 s behind the chain/, /set-ntp/],
  ['a clock far ahead (T16)', { blockMs: now - 3_600_000 }, 'clock', 'warn', /^3600 s ahead/, /time server/],
  ['an empty wallet', { balance: 0n }, 'balance', 'warn', /^0 USDC/, /fund 0x.*faucet/],
  [
    'a facilitator of another network',
    { kinds: [{ x402Version: 2, scheme: 'exact', network: 'eip155:1' }] },
    'facilitator',
    'fail',
    /does not settle exact payments on eip155:84532/,
    /FACILITATOR_URL/,
  ],
  [
    'a facilitator that is none',
    { kinds: 'hello' },
    'facilitator',
    'fail',
    /is not an x402 facilitator/,
    /FACILITATOR_URL/,
  ],
])('finds %s and names the fix', async (_, state, id, expected, text, fix) => {
  await cli(['wallet', 'address'], { dataDir: dataDir() })
  const { code, of } = await examine(free, { parts: world(state) })
  expect(of(id)).toMatchObject({ state: expected, text: expect.stringMatching(text), fix: expect.stringMatching(fix) })
  expect(code).toBe(expected === 'fail' ? 1 : 0)
})

test.skipIf(process.platform === 'win32')('finds permissions that are too open (D3)', async () => {
  await cli(['wallet', 'address'], { dataDir: dataDir() })
  await chmod(join(dataDir(), 'wallet.key'), 0o644)
  await writeFile(join(dataDir(), 'identity.key'), 'key', { mode: 0o644 })
  await chmod(dataDir(), 0o755)
  const { of, rows } = await examine(free, { parts: world() })
  // It says so and mends nothing: whoever asks is to decide.
  expect((await stat(join(dataDir(), 'identity.key'))).mode & 0o777).toBe(0o644)
  expect(rows.filter(({ id }) => id === 'key_files')).toHaveLength(2)
  expect(rows.filter(({ id }) => id === 'key_files')[1]).toMatchObject({
    state: 'fail',
    fix: `chmod 600 ${join(dataDir(), 'wallet.key')}`,
  })
  expect(of('data_dir')).toMatchObject({ state: 'fail', fix: `chmod 700 ${dataDir()}` })
})

test('finds damaged keys without showing them (T21)', async () => {
  await writeFile(join(dataDir(), 'wallet.key'), 'hunter2hunter2', { mode: 0o600 })
  await writeFile(join(dataDir(), 'identity.key'), 'hunter2hunter2', { mode: 0o600 })
  const { code, rows, of } = await examine(free, { parts: world() })
  expect(code).toBe(1)
  expect(of('wallet_key')).toMatchObject({ state: 'fail', text: expect.stringMatching(/restore it from a backup/) })
  expect(of('identity')).toMatchObject({ state: 'fail', text: expect.stringMatching(/restore it from a backup/) })
  expect(JSON.stringify(rows)).not.toContain('hunter2')
})

test('finds ports in use by another program, and accepts ports in use by the running node', async () => {
  const others = [createServer(), createServer()].map((server) => server.listen(0, '127.0.0.1'))
  await Promise.all(others.map((other) => once(other, 'listening')))
  const [port, apiPort] = others.map((other) => String((other.address() as AddressInfo).port)) as [string, string]
  const flags = ['--port', port, '--api-port', apiPort]
  const options = { parts: world(), environment: { NODE_LISTEN_HOST: '127.0.0.1' } }
  const taken = await examine(flags, options)
  expect(taken.of('p2p_port')).toMatchObject({ state: 'fail', fix: expect.stringContaining('--port') })
  expect(taken.of('api_port')).toMatchObject({ state: 'fail', fix: expect.stringContaining('--api-port') })
  for (const other of others) other.close()
  await Promise.all(others.map((other) => once(other, 'close')))
  expect((await examine(flags, options)).of('p2p_port')).toMatchObject({
    state: 'ok',
    text: `${port} is free, TCP and UDP`,
  })

  const running = await runningNode(dataDir())
  const held = await examine(['--port', '4001', '--api-port', '8424'], { parts: { ...world(), ...running.parts } })
  expect(held.of('node')).toMatchObject({ state: 'ok', text: expect.stringContaining(`pid ${process.pid}`) })
  expect(held.of('p2p_port').text).toContain('in use by the running node')
  expect(held.of('api_port').text).toContain('in use by the running node')
  expect(held.of('balance')).toMatchObject({ state: 'ok', text: '12.5 USDC' })
})

test('a node of this directory that does not answer is not another program', async () => {
  const other = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const lock = lockDataDir(dataDir())
  await writeNodeFile(dataDir(), {
    ...{ pid: process.pid, api_url: `http://127.0.0.1:${port}`, peer_id: peerId, started_at: new Date().toISOString() },
    addresses: [`/ip4/127.0.0.1/tcp/${port}/p2p/${peerId}`],
  })
  const { connect } = systemParts
  const { of } = await examine(['--port', '0', '--api-port', String(port)], {
    ...{ parts: { ...world(), connect }, environment: { NODE_LISTEN_HOST: '127.0.0.1' } },
  })
  expect(of('node')).toMatchObject({ state: 'fail', text: expect.stringContaining('does not answer') })
  // Without the flags of the node: what else runs on the default ports is no problem of this node.
  const bare = await examine([], { parts: { ...world(), connect } })
  const text = `${port}, in use by the node on this data directory (pid ${process.pid}), which does not answer`
  for (const id of ['p2p_port', 'api_port']) expect(bare.of(id)).toMatchObject({ state: 'ok', text })
  expect([of('p2p_port'), of('api_port')]).toMatchObject([
    { state: 'ok', text },
    { state: 'ok', text },
  ])
  lock.release()
  other.close()
})

test('the wallet is the wallet of the running node, even if this shell has another key', async () => {
  const { parts } = await runningNode(dataDir())
  await writeFile(join(dataDir(), 'wallet.key'), `0x${'7'.repeat(64)}\n`, { mode: 0o600 })
  const { of } = await examine([], { parts: { ...world(), ...parts } })
  expect(of('wallet_key')).toMatchObject({ state: 'ok', text: `${status.wallet_address}, of the running node` })
})

test('a wallet that is another than before is told until its alarm is dismissed', async () => {
  const alarm = {
    id: 'wallet_changed',
    kind: 'wallet_changed',
    severity: 'warn',
    title: 't',
    text: 'x',
    count: 1,
  } as const
  let alarms = [{ ...alarm, mark: 'm' }]
  const before = '0x00000000000000000000000000000000000000aa'
  const node = { status: async () => ({ ...status, wallet_before: before }), alarms: async () => alarms }
  const { parts } = await runningNode(dataDir(), node)
  const look = async () => (await examine([], { parts: { ...world(), ...parts } })).of('wallet_key')
  expect(await look()).toMatchObject({
    state: 'warn',
    text: expect.stringContaining(before),
    fix: expect.stringContaining('stoa alarms dismiss wallet_changed'),
  })
  alarms = []
  expect(await look()).toMatchObject({ state: 'ok' })
})

test('a running node is checked by its own diagnosis, not by the settings and keys of this shell', async () => {
  await writeFile(
    join(dataDir(), 'agents.yaml'),
    'agents:\n  - {name: Keyless, description: d, price: 1, model: anthropic/claude-x}\n',
  )
  const said = (id: string, state: 'ok' | 'fail', text: string) => ({ id, title: id, state, text, fix: 'mend it' })
  const checks = [
    ...['agents', 'bootstrap', 'rpc', 'clock'].map((id) => said(id, 'ok', `${id} of the node`)),
    said('facilitator', 'fail', 'facilitator.example cannot be reached'),
    said('settlement', 'ok', '0 pending'),
  ]
  const { parts } = await runningNode(dataDir(), { diagnosis: async () => ({ checks }) as Diagnosis })
  // By this shell there is no RPC, no peer, no key, and other ports are in use.
  const shell = { ...world({ rpcDown: true }), ...parts }
  const { code, rows, of } = await examine(['--network', 'eip155:8453', '--no-mdns'], { parts: shell })
  expect(rows.filter(({ state }) => state === 'fail' || state === 'warn')).toMatchObject([
    { id: 'facilitator', text: 'facilitator.example cannot be reached' },
  ])
  expect(of('agents').text).toBe('agents of the node')
  expect(of('settlement').text).toBe('0 pending')
  expect(code).toBe(1)
})

test('T20: a running node that nobody can reach is a problem with a fix', async () => {
  const reachability = { addresses: [], relays: [], reason: 'no connected peer is a relay', fix: 'forward the port' }
  const lost = { ...status, reachability: { ...reachability, state: 'unreachable' as const } }
  const running = await runningNode(dataDir(), { status: async () => lost })
  const { of } = await examine(['--port', '4001', '--api-port', '8424'], { parts: { ...world(), ...running.parts } })
  expect(of('reachability')).toMatchObject({
    state: 'fail',
    text: 'not from outside: no connected peer is a relay',
    fix: 'forward the port',
  })
})

test('T20: a router that refused the port is reported beside the reachability of the node', async () => {
  const says = 'no router on this network offers it'
  const reachability = { state: 'relayed' as const, addresses: [], relays: ['12D3'] }
  const asked = { ...status, reachability: { ...reachability, forwarding: { state: 'failed' as const, says } } }
  const running = await runningNode(dataDir(), { status: async () => asked })
  const { rows } = await examine(['--port', '4001', '--api-port', '8424'], { parts: { ...world(), ...running.parts } })
  expect(rows.filter(({ id }) => id === 'reachability')).toMatchObject([
    { state: 'ok', text: 'through relay 12D3' },
    { state: 'warn', text: `UPnP: ${says}` },
  ])
})

test('finds agents with nothing to run on (D10, T20)', async () => {
  await writeFile(
    join(dataDir(), 'agents.yaml'),
    `agents:
  - {name: Paid, description: d, price: 1}
  - {name: Free, description: d, price: 0}
  - {name: Keyless, description: d, price: 1, model: anthropic/claude-x}
  - {name: Good, description: d, price: 1, model: builtin/echo}
`,
  )
  const { rows, code } = await examine(free, { parts: world() })
  expect(code).toBe(1)
  const found = rows.filter(({ id }) => id === 'agents')
  expect(found).toMatchObject([
    { state: 'fail', text: expect.stringMatching(/^Paid: this agent has no model .* or set one of/) },
    { state: 'warn', text: expect.stringMatching(/^Free: no model key is set/) },
    { state: 'fail', text: expect.stringMatching(/^Keyless: .*ANTHROPIC_API_KEY/) },
  ])
  const mainnet = await examine([...free, '--network', 'eip155:8453'], { parts: world({ chainId: 8453 }) })
  expect(mainnet.of('facilitator')).toMatchObject({ state: 'fail', text: expect.stringMatching(/never settled/) })
})

test('a broken agents.yaml and an unusable data directory are findings and do not stop the other checks', async () => {
  await writeFile(join(dataDir(), 'agents.yaml'), 'agents: [')
  const { of, rows } = await examine(free, { parts: world() })
  expect(of('agents_file')).toMatchObject({ state: 'fail', text: expect.stringMatching(/agents\.yaml:\d/) })
  expect(rows.length).toBeGreaterThan(12)
  const file = join(dataDir(), 'file')
  await writeFile(file, '')
  const unusable = await examine([...free, '--data-dir', file], { parts: world() })
  expect(unusable.of('data_dir')).toMatchObject({ state: 'fail', text: expect.stringMatching(/and not a directory/) })
})

test('tries every bootstrap peer', async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const peer = (address: string) => ['--bootstrap', `${address}/p2p/${peerId}`]
  const { rows } = await examine(
    [
      ...free,
      ...peer(`/ip4/127.0.0.1/tcp/${port}`),
      ...peer('/ip4/127.0.0.1/tcp/1'),
      ...peer('/ip4/127.0.0.1/udp/1/quic-v1'),
    ],
    { parts: world() },
  )
  server.close()
  expect(rows.filter(({ id }) => id === 'bootstrap').map(({ state }) => state)).toEqual(['ok', 'fail', 'skip'])
})

test('checks run in parallel, each with a time limit', async () => {
  const asked: number[] = []
  const hang = () => {
    asked.push(performance.now())
    return new Promise<never>(() => {})
  }
  const { of, code } = await examine(free, { parts: { fetch: hang as typeof fetch, clock: { now: () => now } } })
  expect(asked.length).toBeGreaterThan(1)
  // None waited for the time limit of another one.
  expect(asked.at(-1)! - asked[0]!).toBeLessThan(4_500)
  expect(code).toBe(1)
  expect(of('facilitator')).toMatchObject({ state: 'fail', text: 'no answer within 5 s' })
})

test('the text output has one line per finding, with the fix below', async () => {
  await mkdir(join(dataDir(), 'x'))
  const run = await cli(['doctor', ...free, '--no-public-dht'], { dataDir: dataDir(), parts: world({ chainId: 1 }) })
  expect(run.code).toBe(1)
  expect(run.stdout).toMatch(/^✓ Node\.js +v\d/m)
  expect(run.stdout).toMatch(/^✗ Chain RPC +.*\n +fix: correct ETHEREUM_RPC_URL or NODE_NETWORK$/m)
  expect(run.stdout).toMatch(/\n1 problem to fix, 1 to check\n$/)
})

test('without a running node the keys of catalogs are looked for as its start would look', async () => {
  const setting = { url: 'https://catalog.example/x402', token_env: 'CATALOG_TOKEN' }
  await writeFile(join(dataDir(), 'config.yaml'), JSON.stringify({ sources: [setting] }))
  await cli(['wallet', 'address'], { dataDir: dataDir() })
  const found = async (environment: Record<string, string> = {}) =>
    (await examine(free, { parts: world(), environment })).of('sources')
  expect(await found()).toMatchObject({
    state: 'fail',
    text: 'the node will not start: sources: CATALOG_TOKEN is not set, or is a secret of this node',
  })
  expect(await found({ CATALOG_TOKEN: 'x' })).toMatchObject({ state: 'ok', text: '1, asked by a running node' })
})

test('without a running node the keys of webhooks are looked for as its start would look', async () => {
  const setting = { url: 'http://127.0.0.1:9000/stoa', secret_env: 'HOOK_SECRET', events: ['order'] }
  await writeFile(join(dataDir(), 'config.yaml'), JSON.stringify({ webhooks: [setting] }))
  await cli(['wallet', 'address'], { dataDir: dataDir() })
  const found = async (environment: Record<string, string> = {}) =>
    (await examine(free, { parts: world(), environment })).of('webhooks')
  expect(await found()).toMatchObject({
    state: 'fail',
    text: expect.stringMatching(/^the node will not start: .*HOOK_SECRET, which secret_env names, is not set$/),
  })
  expect(await found({ HOOK_SECRET: 'x'.repeat(32) })).toMatchObject({ state: 'ok' })
})

test('without a running node the TLS files of the public listener are read as its start would read them', async () => {
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(dataDir(), name)) as [string, string]
  const store = async (made: { cert: string; key: string }) => {
    await writeFile(cert, made.cert)
    await writeFile(key, made.key, { mode: 0o600 })
  }
  const dates = { from: new Date(now - 86_400_000), until: new Date(now + 60 * 86_400_000) }
  const settings = `public:\n  port: 8425\n  url: https://127.0.0.1\n  tls_cert: ${cert}\n  tls_key: ${key}\n`
  await writeFile(join(dataDir(), 'config.yaml'), settings)
  const found = async () => (await examine(free, { parts: world() })).of('public')
  await store(makeCertificate(dates))
  expect(await found()).toMatchObject({ state: 'ok', text: expect.stringMatching(/until 2026-03-02/) })
  await store(makeCertificate({ ...dates, hosts: ['agents.example.org'], until: new Date(now + 5 * 86_400_000) }))
  expect(await found()).toMatchObject({ state: 'warn', text: expect.stringMatching(/expires on 2026-01-06/) })
  await store({ cert: makeCertificate(dates).cert, key: makeCertificate(dates).key })
  expect(await found()).toMatchObject({ state: 'fail', text: expect.stringMatching(/will not start.*does not belong/) })
  await store(makeCertificate({ ...dates, until: new Date(now - 1) }))
  expect(await found()).toMatchObject({ state: 'fail', text: expect.stringMatching(/expired/) })
})
