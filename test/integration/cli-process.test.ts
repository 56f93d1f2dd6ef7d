/** The command line as its users run it: real processes, real signals. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { engineEnvironment } from '../support/ledger-engine.ts'
import { until } from '../support/until.ts'

const stoa = new URL('../../bin/stoa.js', import.meta.url).pathname
const quiet = ['--port', '0', '--no-mdns']
const start = [
  'start',
  ...quiet,
  '--api-port',
  '0',
  '--rpc-url',
  'http://127.0.0.1:9',
  '--facilitator-url',
  'http://127.0.0.1:9',
]
const echo = ['--name', 'Echo', '--description', 'Says it again.', '--price', '0', '--model', 'builtin/echo']

let dir: string
/** Where the node of `data` has its ledger. */
let engine: { DATABASE_URL?: string }
let children: ChildProcess[]
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-process-'))
  engine = await engineEnvironment(join(dir, 'data'))
  children = []
})
afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await rm(dir, { recursive: true, force: true })
})

function run(argv: readonly string[], environment: Record<string, string> = {}) {
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/KEY|NODE_|ETHEREUM|BOOTSTRAP|FACILITATOR/.test(name)),
  )
  const child = spawn(process.execPath, [stoa, ...argv], {
    env: { ...clean, NODE_DATA_DIR: join(dir, 'data'), NODE_LISTEN_HOST: '127.0.0.1', ...engine, ...environment },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  children.push(child)
  const seen = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => {
    seen.stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    seen.stderr += chunk
  })
  const ended = once(child, 'close').then(([code, signal]) => ({ code: code as number | null, signal, ...seen }))
  return { child, seen, ended }
}

async function startNode(argv: readonly string[] = [], environment?: Record<string, string>) {
  const node = run([...start, '--json', ...argv], environment)
  const line = await until(() => (node.seen.stdout.includes('\n') ? node.seen.stdout : undefined), {
    timeoutMs: 60_000,
  })
  return { ...node, ready: JSON.parse(line) as { api_url: string; addresses: string[]; agents: { id: string }[] } }
}

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  '%s ends a node with 0 within 5 s and leaves a clean directory',
  async (signal) => {
    const { child, ended, ready } = await startNode(echo)
    expect(await (await fetch(`${ready.api_url}/health`)).json()).toEqual({ status: 'ok' })
    expect(await readdir(join(dir, 'data'))).toEqual(expect.arrayContaining(['node.json', 'lock.pid']))
    const before = performance.now()
    child.kill(signal)
    expect(await ended).toMatchObject({ code: 0, signal: null })
    expect(performance.now() - before).toBeLessThan(20_000)
    const left = await readdir(join(dir, 'data'))
    expect(left).toEqual(expect.arrayContaining(['identity.key', 'wallet.key', 'stoa.db']))
    expect(left).not.toContain('node.json')
    expect(left).not.toContain('lock.pid')
    for (const name of ['identity.key', 'wallet.key', 'api.token']) {
      if (left.includes(name)) expect((await stat(join(dir, 'data', name))).mode & 0o077).toBe(0)
    }
    expect((await stat(join(dir, 'data'))).mode & 0o077).toBe(0)
  },
)

test('commands go through the running node; a second node on its directory is refused with the pid (D3)', async () => {
  const { child, ended, ready } = await startNode(echo)
  const second = await run(start).ended
  expect(second).toMatchObject({ code: 1, stdout: '' })
  expect(second.stderr).toBe(
    `error: another stoa (pid ${child.pid}) uses ${join(dir, 'data')}: stop it, or choose another --data-dir\n`,
  )
  const asked = run(['agent', 'execute', '--agent-id', ready.agents[0]!.id, '-'])
  asked.child.stdin.end('over the pipe')
  expect(await asked.ended).toMatchObject({ code: 0, stdout: 'over the pipe\n' })
  expect(JSON.parse((await run(['status', '--json']).ended).stdout)).toMatchObject({ agents: { local: 1, known: 1 } })
  child.kill('SIGTERM')
  expect((await ended).code).toBe(0)
  expect(await run(['status']).ended).toMatchObject({ code: 6 })
})

test('a node killed with SIGKILL starts again at once, with the same identity (T16, T17)', async () => {
  const first = await startNode()
  first.child.kill('SIGKILL')
  await first.ended
  expect((await run(['status']).ended).code).toBe(6)
  const { ready, child, ended } = await startNode()
  const peerOf = (addresses: string[]) => addresses[0]!.split('/p2p/')[1]
  expect(peerOf(ready.addresses)).toBe(peerOf(first.ready.addresses))
  child.kill('SIGTERM')
  expect((await ended).code).toBe(0)
})

test('with no node running, a short-lived one finds a seller through --bootstrap and has its agent work', async () => {
  const seller = await startNode(echo)
  const dataDir = join(dir, 'buyer')
  const buyer = { NODE_DATA_DIR: dataDir, ...(await engineEnvironment(dataDir)) }
  const bootstrap = [...quiet, '--bootstrap', seller.ready.addresses.find((address) => address.includes('/tcp/'))!]
  const found = await run(['agent', 'discover', '--json', ...bootstrap], buyer).ended
  expect(JSON.parse(found.stdout)).toMatchObject([{ name: 'Echo', price: 0, local: false }])
  const task = ['agent', 'execute', ...bootstrap, '--agent-id', seller.ready.agents[0]!.id, '--task', 'from afar']
  expect(await run(task, buyer).ended).toMatchObject({ code: 0, stdout: 'from afar\n' })
  expect(await readdir(dataDir)).not.toContain('node.json')
})

test('a second signal ends a node at once with 130, though a task still runs', async () => {
  const begun = join(dir, 'begun')
  const program = `require('node:fs').writeFileSync(${JSON.stringify(begun)}, ''); setTimeout(() => {}, 8000)`
  const slow = ['--name', 'Slow', '--description', 'd', '--price', '0', '--command', process.execPath]
  await run(['agent', 'config', 'add', ...slow, '--command=-e', '--command', program]).ended
  const node = run(start)
  await until(() => node.seen.stdout.includes('Ctrl-C stops the node'))
  run(['agent', 'execute', '--agent-id', /\b[a-z2-7]{32}\b/.exec(node.seen.stdout)![0], '--task', 'x'])
  await until(() => stat(begun).catch(() => undefined))
  node.child.kill('SIGTERM')
  await until(() => node.seen.stderr.includes('stopping'))
  node.child.kill('SIGTERM')
  expect((await node.ended).code).toBe(130)
})

test('Ctrl-C on a command that waits ends it with 130', async () => {
  const looking = run(['agent', 'discover', ...quiet, '--wait', '60'])
  await until(() => looking.seen.stderr.includes('to listen for listings'))
  looking.child.kill('SIGINT')
  expect(await looking.ended).toMatchObject({ code: 130, stdout: '' })
})

test('a port in use is one clear line, and the node leaves nothing behind', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  for (const flags of [
    ['--port', String(port), '--api-port', '0'],
    ['--port', '0', '--api-port', String(port)],
  ]) {
    const { code, stdout, stderr } = await run(['start', '--no-mdns', ...flags]).ended
    expect(code).toBe(1)
    expect(stdout).toBe('')
    expect(stderr).toMatch(new RegExp(`^error: .*\\b${port}\\b.*in use`, 'm'))
  }
  other.close()
  expect(await readdir(join(dir, 'data'))).not.toContain('node.json')
})

test('a crash shows where, ends with 1, and shows no secret (T21)', async () => {
  const key = 'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
  const bomb = 'setTimeout(() => { throw new Error("boom " + process.env.ETHEREUM_PRIVATE_KEY) }, 700)'
  const { code, stderr } = await run([...start, '--json'], {
    ETHEREUM_PRIVATE_KEY: key,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(bomb)}`,
  }).ended
  expect(code).toBe(1)
  expect(stderr).toContain('fatal: Error: boom [secret]')
  expect(stderr).not.toContain(key)
})

test('a reader that leaves early ends no node', async () => {
  const { child, ended, ready } = await startNode()
  child.stdout.destroy()
  child.stderr.destroy()
  expect((await fetch(`${ready.api_url}/health`)).status).toBe(200)
  child.kill('SIGTERM')
  expect((await ended).code).toBe(0)
})

test('an older Node.js is named, before anything fails on what it does not know', async () => {
  const older = `Object.defineProperty(process, 'versions', { value: { node: '22.17.1' } })`
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(older)}`
  const { code, stderr } = await run(['--version'], { NODE_OPTIONS }).ended
  expect(code).toBe(1)
  expect(stderr).toMatch(/^error: stoa needs Node.js 22\.18 or newer; this is v\S+ \(.+\)\.\n.*https:\/\/nodejs\.org/)
})

test('what only shows a node ends when nobody reads any more', async () => {
  const { child: node, ended: nodeEnded } = await startNode()
  const { child, seen, ended } = run(['status', '--watch', '--json'])
  await until(() => seen.stdout !== '')
  child.stdout.destroy()
  expect((await ended).code).toBe(0)
  node.kill('SIGTERM')
  await nodeEnded
})
