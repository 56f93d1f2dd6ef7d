import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { createConfig, loadConfig, resolveDataDir } from './config.ts'

let dataDir: string
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-config-'))
})
afterAll(() => rm(dataDir, { recursive: true, force: true }))

test('a flag overrides the environment, the environment overrides config.yaml, config.yaml overrides the default (D4)', async () => {
  const load = async (flags: object, environment: object) =>
    (await loadConfig(flags, { NODE_DATA_DIR: dataDir, ...environment })).config.api.port
  expect(await load({}, {})).toBe(8424)
  await writeFile(join(dataDir, 'config.yaml'), 'api: {port: 1001}\n')
  expect(await load({}, {})).toBe(1001)
  expect(await load({}, { NODE_API_PORT: '1002' })).toBe(1002)
  expect(await load({ apiPort: 1003 }, { NODE_API_PORT: '1002' })).toBe(1003)
  expect(await load({ apiPort: undefined }, { NODE_API_PORT: '' })).toBe(1001)
})

test.each([
  [{ port: 8424 }, /p2p\.port and api\.port are both 8424: give each a port of its own/],
  [{ apiPort: 9001, publicPort: 9001, publicHost: '::' }, /api\.port and public\.port are both 9001/],
  [{ listenHosts: ['0.0.0.0'], publicPort: 4001, publicHost: '127.0.0.1' }, /p2p\.port and public\.port are both 4001/],
])('two listeners of one node on one port are refused: %o', (settings, message) => {
  expect(() => createConfig({ dataDir, ...settings })).toThrow(message)
})

test.each([
  [{ port: 0, apiPort: 0, publicPort: 0 }],
  [{ port: 8424, listenHosts: ['203.0.113.7'] }],
  [{ port: 8424, apiEnabled: false }],
])('listeners that do not meet may share a port: %o', (settings) => {
  expect(createConfig({ dataDir, ...settings }).network).toBe('eip155:84532')
})

test('an error in config.yaml names the full path of the file', async () => {
  const file = join(dataDir, 'config.yaml')
  await writeFile(file, 'network: eip155:84532\napi: {port: x}\n')
  await expect(loadConfig({ dataDir }, {})).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message: `${file}:2: api.port: "x" is not valid: expected a port, 0 to 65535 (0 means any free port)`,
  })
  await rm(file)
})

test('a config.yaml that cannot be read is an error, a missing config.yaml is not', async () => {
  await expect(loadConfig({ dataDir: join(dataDir, 'nowhere') }, {})).resolves.toBeDefined()
  const inner = await mkdtemp(join(dataDir, 'inner-'))
  await mkdir(join(inner, 'config.yaml'))
  await expect(loadConfig({ dataDir: inner }, {})).rejects.toThrow(/config\.yaml: the file cannot be read/)
})

test('RPC and facilitator follow the network, and Base has no default facilitator', () => {
  expect(createConfig({ dataDir })).toMatchObject({
    network: 'eip155:84532',
    rpcUrl: 'https://sepolia.base.org',
    facilitatorUrl: 'https://x402.org/facilitator',
  })
  expect(createConfig({ dataDir, network: 'eip155:8453' })).toMatchObject({
    rpcUrl: 'https://mainnet.base.org',
    facilitatorUrl: undefined,
  })
})

test('the defaults are the documented ones (D3, D4, D16, D33)', () => {
  const config = createConfig({ dataDir })
  expect(config.p2p).toMatchObject({ port: 4001, bootstrap: [], announce: [], mdns: true })
  expect(config.p2p.listenHosts[0]).toBe('0.0.0.0')
  expect(config.api).toMatchObject({ host: '127.0.0.1', port: 8424, insecureOpen: false, enabled: true })
  expect(config.buyer).toEqual({
    maxPriceAtomic: 1_000_000n,
    dailyBudgetAtomic: 5_000_000n,
    allowSettleFirst: true,
    awaitSettlement: false,
    privateOrigins: [],
    channels: { mode: 'auto', opensByRule: true, aheadCalls: 10, depositMax: 1_000_000n, idleMs: 86_400_000 },
  })
  expect(config.seller).toMatchObject({ settleFirst: false, keepListed: false })
})

test('the data directory is absolute, and ~ is the home directory even without a shell', () => {
  expect(resolveDataDir({}, {})).toBe(join(homedir(), '.stoa'))
  expect(resolveDataDir({}, { NODE_DATA_DIR: '~/market' })).toBe(join(homedir(), 'market'))
  expect(resolveDataDir({ dataDir: 'here' }, { NODE_DATA_DIR: '/there' })).toBe(resolve('here'))
})

test.each([
  ['', 'HOME is empty'],
  ['relative', 'HOME is the relative path relative'],
])('keys are never stored in the working directory: HOME=%j is refused', (home, reason) => {
  vi.stubEnv('HOME', home)
  onTestFinished(() => void vi.unstubAllEnvs())
  for (const env of [{}, { NODE_DATA_DIR: '~/market' }])
    expect(() => resolveDataDir({}, env)).toThrow(`${reason}: set HOME to an absolute path, or name the data directory`)
  expect(resolveDataDir({ dataDir: '/named' }, {})).toBe('/named')
})

test('D43: without a bootstrap peer the node uses the public DHT, unless it is local or the DHT is turned off', () => {
  const asks = (settings: object) =>
    createConfig({ dataDir: '/d', listenHosts: ['0.0.0.0'], ...settings }).p2p.publicDht
  const bootstrap = ['/ip4/203.0.113.7/tcp/4001/p2p/12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz']
  expect(asks({})).toBe(true)
  expect(asks({ publicDht: false })).toBe(false)
  expect(asks({ bootstrap })).toBe(false)
  expect(asks({ bootstrap, publicDht: true })).toBe(true)
  expect(asks({ listenHosts: ['127.0.0.1', '::1'] })).toBe(false)
})
