import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { CodedError } from '../../src/lib/errors.ts'
import { address, cli, fakeNode, peerId, type RunOptions, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const echo = ['--name', 'Echo', '--description', 'Says it again.', '--price', '0.01', '--model', 'builtin/echo']

/** Starts, waits for the first output, then does what Ctrl-C does. */
async function startAndStop(argv: readonly string[], options: RunOptions) {
  const stop = new AbortController()
  const onOutput = () => stop.abort(new Error('stopped by SIGINT'))
  return await cli(['start', ...argv], { dataDir: dataDir(), signal: stop.signal, onOutput, ...options })
}

test('with --json one line reports that the node listens; SIGTERM then ends it with 0', async () => {
  const { seen, parts } = fakeNode()
  const run = await startAndStop([...echo, '--json', '--port', '0', '--no-mdns'], { parts })
  expect(run.code).toBe(0)
  expect(run.stdout.split('\n')).toHaveLength(2)
  expect(JSON.parse(run.stdout)).toMatchObject({
    event: 'ready',
    api_url: 'http://127.0.0.1:8424',
    peer_id: peerId,
    addresses: [expect.stringContaining('/p2p/')],
    wallet_address: address,
    network: 'eip155:84532',
    data_dir: dataDir(),
    agents: [{ name: 'Echo', price: 0.01, price_atomic: '10000', model: 'builtin/echo', local: true }],
  })
  expect(seen.calls).toEqual(['start', 'register', 'stop'])
  expect(seen.config?.p2p).toMatchObject({ port: 0, mdns: false })
})

test('the text output is a summary with agents, prices and warnings', async () => {
  const { parts } = fakeNode()
  const run = await startAndStop(
    ['--name', 'Free', '--description', 'd', '--price', '0', '--no-mdns', '--no-public-dht'],
    { parts },
  )
  expect(run.stdout).toMatch(/^stoa \d+\.\d+\.\d+ is running\n/)
  expect(run.stdout).toMatch(new RegExp(`Peer id +${peerId}`))
  expect(run.stdout).toMatch(/API +http:\/\/127\.0\.0\.1:8424/)
  expect(run.stdout).toMatch(new RegExp(`Wallet +${address} +\\(eip155:84532: Base Sepolia, test money\\)`))
  expect(run.stdout).toMatch(/1 agent on the market\n +Free {2}free/)
  // D10, T20: no key is set, so the operator is told what runs instead, and the fix.
  expect(run.stdout).toMatch(
    /! Free: no model key is set: this free agent runs on builtin\/.*Set one of .*OPENAI_API_KEY/,
  )
  expect(run.stdout).toContain(
    '! this node knows no peers and does not look for any: give --bootstrap, or remove --no-mdns or --no-public-dht',
  )
  expect(run.stderr).toBe('stopping\n')
})

test('T20: settings of a public listener that has no port are a warning', async () => {
  await writeFile(
    join(dataDir(), 'config.yaml'),
    'public: {url: https://agents.example, trusted_proxies: [127.0.0.1]}\n',
  )
  const run = await startAndStop(['--no-mdns'], { parts: fakeNode().parts })
  expect(run.stdout).toContain(
    '! public.url, public.trusted_proxies are set and public.port is not, so nobody can buy over HTTP: set public.port',
  )
})

test('every agent of agents.yaml is registered; flags override an agent of the same name; a broken agent stays off the market alone', async () => {
  await writeFile(
    join(dataDir(), 'agents.yaml'),
    `agents:
  - {name: Echo, description: the file's, price: 5}
  - {name: Typo, description: d, price: 0, model: builtn/echo}
  - {name: Sum, description: d, price: 0.002, model: builtin/summarize}
`,
  )
  const { seen, parts } = fakeNode()
  const run = await startAndStop([...echo, '--json'], { parts })
  expect(seen.registered.map(({ name, price }) => [name, price])).toEqual([
    ['Typo', 0n],
    ['Sum', 2000n],
    ['Echo', 10_000n],
  ])
  expect(seen.calls.filter((call) => call === 'keep')).toHaveLength(1)
  expect(JSON.parse(run.stdout).warnings).toEqual([expect.stringMatching(/^Typo is not on the market: model/)])
})

test('an agent that the node refuses is reported, and the node keeps running', async () => {
  const { parts } = fakeNode({ registerAgent: () => Promise.reject(new CodedError('AGENTS_TOO_MANY', 'at most 100')) })
  const run = await startAndStop([...echo, '--json'], { parts })
  expect(run.code).toBe(0)
  expect(JSON.parse(run.stdout)).toMatchObject({ agents: [], warnings: ['Echo is not on the market: at most 100'] })
})

test('the node knows the agents that it will offer before its doors open, and that no more come', async () => {
  await writeFile(
    join(dataDir(), 'agents.yaml'),
    `agents:
  - {name: Off, description: d, price: 0, model: builtin/echo, paused: true}
  - {name: Sum, description: d, price: 0.002, model: builtin/summarize}
`,
  )
  const { seen, parts } = fakeNode()
  await startAndStop([...echo, '--json'], { parts })
  expect(seen.calls).toEqual(['start', 'keep', 'register', 'register', 'stop'])
  expect(seen.expected).toEqual([
    { names: ['Sum', 'Echo'], after: 0 },
    { names: [], after: 4 },
  ])
})

test('a node whose agents are all off the market does not say that it has no agents', async () => {
  const { parts } = fakeNode({ registerAgent: () => Promise.reject(new CodedError('AGENTS_TOO_MANY', 'at most 100')) })
  const { stdout } = await startAndStop([...echo], { parts })
  expect(stdout).toContain('The agent of this node is not on the market: see stoa agent list')
  expect(stdout).not.toContain('No agents to sell')
})

test('a paid agent on Base without a facilitator brings a warning, because it would work for nothing', async () => {
  const { parts } = fakeNode()
  const run = await startAndStop([...echo, '--json', '--network', 'eip155:8453'], { parts })
  expect(JSON.parse(run.stdout).warnings).toEqual([
    expect.stringMatching(/^no facilitator is set for eip155:8453.*never settled: set --facilitator-url/),
  ])
})

test('an agent without a worker is said to be off the market once', async () => {
  await writeFile(join(dataDir(), 'agents.yaml'), 'agents:\n  - {name: Far, description: d, price: 0, worker: true}\n')
  const { parts } = fakeNode()
  const [warning = ''] = JSON.parse((await startAndStop(['--json'], { parts })).stdout).warnings
  expect(warning).toMatch(/^Far is not on the market: no worker that can run it is connected: /)
  expect(warning.split('not on the market')).toHaveLength(2)
})

test.each([
  ['DATA_DIR_LOCKED', 'another stoa (pid 7) uses /d'],
  ['PORT_IN_USE', 'port 4001 is in use'],
  ['API_PORT_IN_USE', 'port 8424 is in use'],
])('a start that fails with %s prints one line, stops the node and exits with 1', async (code, message) => {
  const { seen, parts } = fakeNode({ start: () => Promise.reject(new CodedError(code, message)) })
  const run = await cli(['start'], { dataDir: dataDir(), parts })
  expect(run).toEqual({ code: 1, stdout: '', stderr: `error: ${message}\n` })
  expect(seen.calls).toEqual(['stop'])
})

test('Ctrl-C during the start stops the node with 0, without a ready line', async () => {
  const stop = new AbortController()
  const { promise, resolve } = Promise.withResolvers<void>()
  const { seen, parts } = fakeNode({
    start: () => {
      setImmediate(() => {
        stop.abort()
        setImmediate(resolve)
      })
      return promise
    },
  })
  const run = await cli(['start', '--json'], { dataDir: dataDir(), parts, signal: stop.signal })
  expect(run).toMatchObject({ code: 0, stdout: '' })
  expect(seen.calls).toEqual(['stop'])
})

test('a node that does not stop is abandoned within 5 s, with exit status 0', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const asked = Promise.withResolvers<void>()
  const stop = () => {
    asked.resolve()
    return new Promise<void>(() => {})
  }
  const running = startAndStop(['--json'], { parts: fakeNode({ stop }).parts })
  await asked.promise
  await vi.advanceTimersByTimeAsync(5_000)
  const run = await running
  expect(run.code).toBe(0)
  expect(run.stderr).toMatch(/did not stop in time.*start the node again within a day/s)
})

test('no secret reaches log, error or crash lines, in any field (T21)', async () => {
  const key = 'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
  const stored = '59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d'
  const environment = {
    ETHEREUM_PRIVATE_KEY: key,
    OPENAI_API_KEY: 'sk-openai-123',
    ETHEREUM_RPC_URL: 'https://rpc.example.org/v2/RPCKEY99',
  }
  await writeFile(join(dataDir(), 'wallet.key'), `0x${stored}`)
  for (const tty of [false, true]) {
    const { seen, parts } = fakeNode({
      stop: async () => {
        seen.logger?.info({ privateKey: 'whatever', deep: { token: 'whatever' } } as object, 'fields')
        seen.logger?.warn(
          { url: environment.ETHEREUM_RPC_URL, err: new Error(`bad key 0x${key}`) } as object,
          `x ${key.toUpperCase()}`,
        )
        seen.logger?.error({ secrets: seen.secrets, list: ['sk-openai-123'] } as object, `stored ${stored}`)
        throw new Error(`leaked ${key}`)
      },
    })
    const run = await startAndStop(['--json'], { parts, environment, tty })
    expect(run.stderr).toContain('[secret]')
    expect(run.stderr).toContain('rpc.example.org')
    expect(run.stdout + run.stderr).not.toMatch(new RegExp(`${key}|${stored}|sk-openai-123|RPCKEY99|whatever`, 'i'))
  }
})

test('the log is JSON lines on standard error, and can be silenced', async () => {
  const talking = () => {
    const { seen, parts } = fakeNode({ start: async () => seen.logger?.info({ part: 'p2p' }, 'listening') })
    return parts
  }
  const run = await startAndStop(['--json'], { parts: talking() })
  expect(JSON.parse(run.stderr.split('\n')[0]!)).toMatchObject({ level: 'info', part: 'p2p', msg: 'listening' })
  expect((await startAndStop(['--json', '--log-level', 'silent'], { parts: talking() })).stderr).toBe('')
  expect((await startAndStop(['--json', '--log-level', 'warn'], { parts: talking() })).stderr).toBe('')
})

test.skipIf(process.platform === 'win32')(
  'a data directory open to others is closed, with a warning (D3)',
  async () => {
    await chmod(dataDir(), 0o755)
    const { parts } = fakeNode()
    const run = await startAndStop(['--json'], { parts })
    expect(JSON.parse(run.stdout).warnings).toEqual([
      expect.stringMatching(/could be read by other users.*its mode is now 700$/),
    ])
  },
)

test('a data directory that is not a directory is refused first, with the fix', async () => {
  const file = join(dataDir(), 'file')
  await writeFile(file, '')
  const run = await cli(['start', '--data-dir', file], {})
  expect(run).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^error: .*not a directory: choose another/),
  })
})

test('an agent that cannot run here and that another process sells is no warning, and is said to be on sale there', async () => {
  const worker = 'agents:\n  - {name: Counter, description: d, price: 0, worker: true}\n'
  await writeFile(join(dataDir(), 'agents.yaml'), worker)
  const { parts } = fakeNode({
    ownAgents: { expect: () => {}, keep: async () => ({ sold_elsewhere: true }), reload: async () => {} },
  })
  const { stdout } = await startAndStop([], { parts })
  expect(stdout).toContain('On sale at other processes of this seller: Counter')
  expect(stdout).not.toMatch(/not on the market|No agents/)
})
