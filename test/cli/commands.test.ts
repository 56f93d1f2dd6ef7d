import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CodedError } from '../../src/lib/errors.ts'
import type { NodeEvent } from '../../src/schema/events.ts'
import type { OwnAgent, ReloadedAgents } from '../../src/schema/own-agent.ts'
import { agentId, cli, fakeNode, fleet, listing, peerId, runningNode, status, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const STARTS_WITH_NODE = 'no node runs on this data directory: the change starts with the node (stoa start)\n'
const add = ['agent', 'config', 'add', '--name', 'Echo', '--description', 'Says it again.', '--price', '0.10']

test('agent config add writes agents.yaml, list shows the agent, remove deletes it', async () => {
  const options = { dataDir: dataDir() }
  const file = join(dataDir(), 'agents.yaml')
  const added = await cli(
    [...add, '--model', 'builtin/echo', '--tag', 'a', '--tag', 'b', '--run-timeout', '5'],
    options,
  )
  expect(added).toEqual({
    code: 0,
    stdout: `added Echo (0.1 USDC) in ${file}\n`,
    stderr: STARTS_WITH_NODE,
  })
  expect(await readFile(file, 'utf8')).toContain('name: Echo')
  const json = await cli(['agent', 'config', 'list', '--json'], options)
  expect(JSON.parse(json.stdout)).toEqual([
    {
      name: 'Echo',
      description: 'Says it again.',
      price: 0.1,
      model: 'builtin/echo',
      tags: ['a', 'b'],
      timeout_seconds: 5,
    },
  ])
  expect((await cli(['agent', 'config', 'list'], options)).stdout).toBe(
    'Echo  0.1 USDC  builtin/echo  Says it again.\n',
  )
  expect((await cli(add, options)).stdout).toMatch(/^replaced Echo/)
  expect(await cli(['agent', 'config', 'remove', '--name', 'Echo'], options)).toMatchObject({ code: 0 })
  expect((await cli(['agent', 'config', 'list', '--json'], options)).stdout).toBe('[]\n')
  expect(await cli(['agent', 'config', 'remove', '--name', 'Echo'], options)).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(
      /^error: .*agents\.yaml has no agent named "Echo": stoa agent config list lists the names\n$/,
    ),
  })
  // The name alone, as with `stoa agent remove`.
  const remove = (...words: string[]) => cli(['agent', 'config', 'remove', ...words], options)
  expect(await remove('Echo')).toMatchObject({ code: 3, stderr: expect.stringContaining('no agent named "Echo"') })
  await cli(add, options)
  expect(await remove('Echo', '--name', 'Other')).toMatchObject({ code: 2 })
  expect(await remove('Echo')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^removed Echo/) })
  expect(await remove()).toMatchObject({ code: 2, stderr: expect.stringContaining('stoa agent config list') })
})

test('agent config add stores full paths of files, because the node may start in another directory', async () => {
  const words = ['python3', '-c', 'package.json', 'tr', './package.json', 'none.py']
  await cli([...add, ...words.map((word) => `--command=${word}`)], { dataDir: dataDir() })
  const full = join(process.cwd(), 'package.json')
  const { stdout } = await cli(['agent', 'config', 'list', '--json'], { dataDir: dataDir() })
  expect(JSON.parse(stdout)[0].command).toEqual(['python3', '-c', full, 'tr', full, 'none.py'])
})

test('ADR-22 agent config add sets a remote agent and its highest cost, and warns if the cost exceeds the price', async () => {
  const elsewhere = [...add, '--a2a', 'https://agents.example/a2a/x', '--max-price']
  const loss = await cli([...elsewhere, '0.2'], { dataDir: dataDir() })
  expect(loss).toMatchObject({ code: 0, stderr: expect.stringMatching(/at a loss.*earns 0\.1 USDC.*pay 0\.2/) })
  const fits = await cli([...elsewhere, '0.1'], { dataDir: dataDir() })
  expect(fits.stderr).toBe(STARTS_WITH_NODE)
  const { stdout } = await cli(['agent', 'config', 'list', '--json'], { dataDir: dataDir() })
  expect(JSON.parse(stdout)[0]).toMatchObject({ a2a: 'https://agents.example/a2a/x', max_price: 0.1 })
})

const echo: OwnAgent = {
  ...{ id: agentId, name: 'Echo', description: 'Says it again.', price: 100_000n, price_atomic: '100000' },
  ...{ runs: 'builtin/echo', tags: [], timeout_seconds: 120, paused: false, listed: true, runnable: true },
  managed_in_file: false,
}
const nothing: ReloadedAgents = { added: [], changed: [], removed: [], unchanged: 0, kept: [] }

test('a running node takes what agent config writes, and the command says what became of it', async () => {
  const answers: ReloadedAgents[] = [
    { ...nothing, added: [echo] },
    { ...nothing, changed: [{ ...echo, listed: false, runnable: false, notice: 'OPENAI_API_KEY is not set' }] },
    { ...nothing, added: [{ ...echo, notice: 'it may sell at a loss' }] },
    { ...nothing, removed: [echo] },
    { ...nothing, unchanged: 3, kept: ['Echo'] },
  ]
  const { parts } = await runningNode(dataDir(), { reloadAgents: async () => answers.shift()! })
  const options = { dataDir: dataDir(), parts }
  const added = await cli([...add, '--model', 'builtin/echo'], options)
  expect(added).toMatchObject({
    code: 0,
    stderr: `Echo is on the market for 0.1 USDC: ${agentId}\n`,
  })
  expect((await cli(add, options)).stderr).toBe(
    'Echo was changed: it is not on the market: OPENAI_API_KEY is not set\n',
  )
  expect((await cli(add, options)).stderr).toBe(
    `Echo is on the market for 0.1 USDC: ${agentId}\nEcho: it may sell at a loss\n`,
  )
  const removed = await cli(['agent', 'config', 'remove', '--name', 'Echo', '--json'], options)
  expect(JSON.parse(removed.stdout)).toMatchObject({
    ...{ removed: 'Echo', restart_needed: false },
    reloaded: { removed: [{ name: 'Echo' }] },
  })
  const kept = await cli(['agent', 'reload'], options)
  expect(kept).toMatchObject({ code: 0, stdout: 'nothing changed: 3 agents of the file are as they were\n' })
  expect(kept.stderr).toContain('Echo stays as it is')
})

test('a node that does not take the change is said to sell as before, and the command fails', async () => {
  const problem = 'agents.yaml:7: "Other": command: nope is not there'
  const refuse = async () => {
    throw new CodedError('CONFIG_INVALID', problem)
  }
  const { parts } = await runningNode(dataDir(), { reloadAgents: refuse })
  const run = await cli([...add, '--model', 'builtin/echo'], { dataDir: dataDir(), parts })
  expect(run).toMatchObject({ code: 2, stdout: expect.stringContaining('added Echo') })
  expect(run.stderr).toBe(
    `the running node did not take the change, and sells as before: ${problem}\nCorrect agents.yaml, then run stoa agent reload\n`,
  )
  const json = await cli([...add, '--json'], { dataDir: dataDir(), parts })
  expect(json.code).toBe(2)
  expect(JSON.parse(json.stdout)).toMatchObject({ replaced: true, restart_needed: true, problem })
})

test('a node of an earlier version has to be restarted', async () => {
  const old = async () => {
    throw new CodedError('METHOD_NOT_ALLOWED', 'this path answers GET, PATCH, DELETE')
  }
  const { parts } = await runningNode(dataDir(), { reloadAgents: old })
  expect(await cli(add, { dataDir: dataDir(), parts })).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/its version cannot reload: .*Restart it to apply the change\n$/),
  })
})

test('without a node, agent reload says so', async () => {
  expect(await cli(['agent', 'reload'], { dataDir: dataDir() })).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('no Stoa node is running'),
  })
})

test.each([
  [['--price', '1e-7'], '--price: "1e-7" is not valid'],
  [['--api-key-env', 'sk-12345'], '--api-key-env: is the NAME of an environment variable'],
  [['--run-timeout', '3601'], '--run-timeout: "3601" is not valid: expected a whole number from 1 to 3600'],
  [['--model', 'builtin/echo', '--command', 'cat'], '--command: give either model or command, not both'],
  [['--max-price', '0.1'], '--max-price: needs a2a'],
  [['--tag', ''], '--tag: '],
  [['--model', 'builtin/none'], '--model: there is no builtin/none: choose one of builtin/'],
])('agent config add refuses %j, and writes nothing', async (flags, message) => {
  const run = await cli([...add, ...flags], { dataDir: dataDir() })
  expect(run).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(`error: ${message}`) })
  await expect(readFile(join(dataDir(), 'agents.yaml'))).rejects.toThrow(/ENOENT/)
})

test('T20: agent config add reports what an agent still needs, and stores it', async () => {
  const run = await cli([...add, '--model', 'openai/gpt-5'], { dataDir: dataDir() })
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining('must set OPENAI_API_KEY') })
})

test('an error in agents.yaml is reported with its line, and stops every command (D11)', async () => {
  await writeFile(join(dataDir(), 'agents.yaml'), 'agents:\n  - name: A\n    descripton: x\n    price: 1\n')
  for (const argv of [add, ['agent', 'config', 'list'], ['start']]) {
    const run = await cli(argv, { dataDir: dataDir() })
    expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(/agents\.yaml:\d+: /) })
  }
})

test('agent discover lists names, prices and peer addresses of the running node', async () => {
  const { parts } = await runningNode(dataDir(), {
    agents: async () => [listing(), listing({ name: 'Evil\u001b[2J', price: 0n, price_atomic: '0', local: true })],
  })
  const run = await cli(['agent', 'discover'], { dataDir: dataDir(), parts, tty: true, environment: { NO_COLOR: '1' } })
  expect(run.code).toBe(0)
  expect(run.stdout).toContain('2 agents')
  expect(run.stdout).toContain('Echo  0.01 USDC  builtin/echo')
  expect(run.stdout).toContain(`  at      /ip4/203.0.113.7/tcp/4001/p2p/${peerId}`)
  expect(run.stdout).toContain('Evil\ufffd[2J  free')
  expect(run.stdout).toContain('seller  this node')
  const json = await cli(['agent', 'discover', '--json'], { dataDir: dataDir(), parts })
  expect(JSON.parse(json.stdout)[0]).toMatchObject({
    name: 'Echo',
    price: 0.01,
    price_atomic: '10000',
    seller_id: peerId,
  })
  expect(json.stderr).toBe('')
})

test('agent discover without a running node listens with a temporary node until no more listings arrive', async () => {
  const { seen, parts } = fakeNode()
  const argv = [
    'agent',
    'discover',
    '--json',
    '--bootstrap',
    `/ip4/203.0.113.7/tcp/4001/p2p/${peerId}`,
    '--port',
    '4009',
  ]
  const run = await cli(argv, { dataDir: dataDir(), parts })
  expect(JSON.parse(run.stdout)).toHaveLength(1)
  expect(seen.calls).toEqual(['start', 'stop'])
  expect(seen.config?.p2p).toMatchObject({ port: 4009, bootstrap: [expect.stringContaining(peerId)] })
  const none = fakeNode({ listings: () => [] })
  const empty = await cli(['agent', 'discover', '--wait', '1'], { dataDir: dataDir(), parts: none.parts })
  expect(empty).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^no agents found: name a peer with --bootstrap/),
  })
})

test('only terminals get color, unless it is forced; NO_COLOR overrides both', async () => {
  const { parts } = await runningNode(dataDir())
  const colored = async (tty: boolean, environment: Record<string, string>) =>
    (await cli(['agent', 'discover'], { dataDir: dataDir(), parts, tty, environment })).stdout.includes('\u001b[')
  expect(await colored(true, {})).toBe(true)
  expect(await colored(false, {})).toBe(false)
  expect(await colored(false, { FORCE_COLOR: '1' })).toBe(true)
  expect(await colored(true, { FORCE_COLOR: '0' })).toBe(false)
  expect(await colored(true, { NO_COLOR: '1', FORCE_COLOR: '1' })).toBe(false)
})

test('status and peers show the running node, or say how to start one', async () => {
  const { parts } = await runningNode(dataDir(), {
    peers: async () => [
      { peer_id: peerId, addresses: ['/ip4/1.2.3.4/tcp/1'], direction: 'outbound', latency_ms: 12.3 },
    ],
  })
  const options = { dataDir: dataDir(), parts }
  expect((await cli(['status'], options)).stdout).toMatch(
    /Peers +2 connected\nReached +not known: .*\nAgents +1 here, 3 known/,
  )
  expect(JSON.parse((await cli(['status', '--json'], options)).stdout)).toEqual(status)
  expect((await cli(['peers'], options)).stdout).toBe(`${peerId}  outbound  12 ms    /ip4/1.2.3.4/tcp/1\n`)
  for (const name of ['status', 'peers']) {
    const run = await cli([name], { dataDir: join(dataDir(), 'other') })
    expect(run).toMatchObject({
      code: 6,
      stderr: expect.stringMatching(/^error: no Stoa node is running on .*: start one with stoa start\n$/),
    })
  }
})

test('status shows the processes and workers of a seller, and how long the database takes', async () => {
  const shared = { processes: { alive: 2, missing: 1 }, workers: { connected: 1, running: 1, runs_max: 4 } }
  const { parts } = await runningNode(dataDir(), { status: async () => ({ ...status, ...shared }) })
  const options = { dataDir: dataDir(), parts }
  const { stdout } = await cli(['status'], options)
  expect(stdout).toMatch(
    /Processes +2 on this ledger, 1 lost and not back: stoa doctor\nWorkers +1 connected, 1 of 4 runs/,
  )
  expect(stdout).toContain(
    'PostgreSQL at db.example:5432/stoa, read 0.8 ms (p99 4.0 ms), change 1.3 ms (p99 8.0 ms), 0.3 s behind the others',
  )
  expect(stdout).toMatch(/a1b2c3d4 +selling +1\.0\.0 +2 +1 +19 s +right +one, process 7 \(answers here\) \/ip4\/203/)
  expect(stdout).toMatch(/e5f6a7b8 +draining +0\.9\.0 +1 +0 +14 s +\+3600 s +two, process 9 \(housekeeping\)/)
  expect(stdout).toMatch(/c9d0e1f2 +sells nothing +1\.0\.0 +0 +0 +15 s +three, process 4/)
  expect(stdout).toMatch(/4fJm0q2pYb1x +connected +1 of 4 +gpu-1: Painter/)
  expect(JSON.parse((await cli(['status', '--json'], options)).stdout)).toEqual({ ...status, ...shared, fleet })
  // A token that may only read sees the status all the same.
  const refused = await runningNode(dataDir(), {
    status: async () => ({ ...status, ...shared }),
    fleet: () => Promise.reject(new Error('SCOPE_TOO_LOW')),
  })
  const short = await cli(['status'], { ...options, parts: refused.parts })
  expect(short).toMatchObject({ code: 0, stdout: expect.stringContaining('2 on this ledger') })
})

test('wallet shows address and balance of the running node', async () => {
  const { parts } = await runningNode(dataDir())
  const options = { dataDir: dataDir(), parts }
  expect((await cli(['wallet'], options)).stdout).toBe(`${status.wallet_address}  on eip155:84532  TEST\n12.5 USDC\n`)
  expect((await cli(['wallet', 'address'], options)).stdout).toBe(`${status.wallet_address}\n`)
  expect(JSON.parse((await cli(['wallet', 'balance', '--json'], options)).stdout)).toMatchObject({ balance: '12.5' })
})

test('wallet works without a node and a chain: it shows the address but not the balance (T15)', async () => {
  const key = 'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
  const parts = { fetch: () => Promise.reject(new TypeError('fetch failed')) }
  const options = { dataDir: dataDir(), parts, environment: { ETHEREUM_PRIVATE_KEY: key } }
  const run = await cli(['wallet'], options)
  expect(run).toMatchObject({ code: 6, stdout: '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266  on eip155:84532  TEST\n' })
  expect(run.stderr).toMatch(/^error: the RPC cannot be reached/)
  const made = await cli(['wallet', 'address'], { dataDir: dataDir() })
  expect(made.stderr).toBe('')
  expect(made.stdout).toMatch(/^0x[0-9a-fA-F]{40}\n$/)
  expect(await cli(['wallet', 'address'], { dataDir: dataDir() })).toEqual(made)
  const stored = (await readFile(join(dataDir(), 'wallet.key'), 'utf8')).trim()
  expect(JSON.stringify(run) + JSON.stringify(made)).not.toContain(stored.slice(2))
})

test('wallet tells when a node that ran with a key from a variable gets a new wallet', async () => {
  await writeFile(join(dataDir(), 'identity.key'), '')
  const made = await cli(['wallet', 'address'], { dataDir: dataDir() })
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^0x/) })
  expect(made.stderr).toMatch(
    /^this node ran before, and its wallet is not here: .* is a new one.* set ETHEREUM_PRIVATE_KEY/,
  )
  expect((await cli(['wallet', 'address'], { dataDir: dataDir() })).stderr).toBe('')
})

test('events prints one unbreakable line per event (T10), or JSON', async () => {
  async function* events(): AsyncGenerator<NodeEvent> {
    yield {
      id: 'x-1',
      type: 'listing',
      data: { change: 'listed', agent_id: 'a', name: 'Evil\u001b[2J\nnews', seller_id: 'b' },
    }
    yield { id: 'x-2', type: 'reset' }
  }
  const { parts } = await runningNode(dataDir(), { events })
  const run = await cli(['events', '--type', 'listing'], { dataDir: dataDir(), parts })
  expect(run).toMatchObject({
    code: 0,
    stdout: 'listing   listed a Evil\ufffd[2J news\nreset     some events were missed\n',
  })
  const json = await cli(['events', '--json'], { dataDir: dataDir(), parts })
  expect(json.stdout.split('\n').map((line) => (line === '' ? '' : JSON.parse(line).type))).toEqual([
    'listing',
    'reset',
    '',
  ])
  const refused = await cli(['events', '--type', 'order', '--type', 'x'], { dataDir: dataDir(), parts })
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--type: "x" is not valid: expected one of'),
  })
})
