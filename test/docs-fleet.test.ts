/** What docs/production.md says of many machines is typed here: by processes with homes of their own, on one PostgreSQL. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type NodeProcess, startNode } from '../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../devnet/devnet.ts'
import type { NodeStatus } from '../src/schema/api.ts'
import type { Diagnosis } from '../src/schema/diagnosis.ts'
import type { Fleet } from '../src/schema/fleet.ts'
import { ask } from './support/api-calls.ts'
import { blocksOf } from './support/doc-blocks.ts'
import { freePort } from './support/loopback.ts'
import { createTestDatabase, type TestDatabase } from './support/test-postgres.ts'
import { until } from './support/until.ts'

const root = new URL('..', import.meta.url).pathname
const run = promisify(execFile)
/** A lease of 20 s, and the start of a process on busy cores. */
const WAIT = { timeoutMs: 90_000, everyMs: 200 }
const MACHINES = ['one', 'two', 'gpu'] as const
type Machine = (typeof MACHINES)[number]

let devnet: Devnet
let database: TestDatabase
let market: NodeProcess
let home: string
/** Nodes and workers by machine. */
const running = new Map<Machine, { kill(signal: NodeJS.Signals): void; gone: Promise<unknown> }>()
const ports = new Map<string, number>()

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-docs-fleet-'))
  await mkdir(join(home, 'bin'))
  const program = async (name: string, text: string) => {
    await writeFile(join(home, 'bin', name), `#!/bin/sh\n${text}\n`)
    await chmod(join(home, 'bin', name), 0o755)
  }
  await program('stoa', `exec ${process.execPath} ${join(root, 'bin/stoa.js')} "$@"`)
  // The machines are folders.
  await program('ssh', `to=${home}/$1; shift; cd "$to" && exec "$@"`)
  await program(
    'scp',
    `for to; do :; done; while [ $# -gt 1 ]; do cp "$1" "${home}/$(echo "$to" | tr : /)"; shift; done`,
  )
  ;[devnet, database] = await Promise.all([startDevnet(), createTestDatabase({ isEmpty: true })])
  for (const machine of MACHINES) {
    await mkdir(join(home, machine, '.stoa'), { recursive: true, mode: 0o700 })
    const port = await freePort()
    ports.set(machine, port)
    const config = machine === 'gpu' ? '' : `p2p: { port: ${port}, mdns: false }\n`
    await writeFile(join(home, machine, '.stoa/config.yaml'), config)
  }
  const environment = { ...chainOf(), BUYER_PRIVATE_KEY: devnet.wallets.buyer.privateKey }
  market = await startNode(['--port', '0', '--no-mdns', '--data-dir', join(home, 'buyer')], environment)
})
afterAll(async () => {
  for (const { kill } of running.values()) kill('SIGTERM')
  await Promise.all([...running.values()].map(({ gone }) => gone))
  await market?.stop()
  await devnet?.stop()
  await database?.drop()
  await rm(home, { recursive: true, force: true })
})

const chainOf = () => ({
  PATH: `${join(home, 'bin')}:${process.env.PATH}`,
  ETHEREUM_RPC_URL: devnet.rpcUrl,
  FACILITATOR_URL: devnet.facilitatorUrl,
  NODE_LISTEN_HOST: '127.0.0.1',
  NODE_API_PORT: '0',
})

/** What was exported stays in the shell of a machine. */
const exported = new Map<Machine, Record<string, string>>()

/** What a person types, with this database and these addresses. */
function typed(machine: Machine, code: string): string {
  return code
    .replaceAll(/postgres:\/\/[^']+/g, database.address())
    .replaceAll(/\/ip4\/203\.0\.113\.\d+\/tcp\/4001/g, `/ip4/127.0.0.1/tcp/${ports.get(machine)}`)
}

/** Types a block at a machine. A node or worker, in its last line, goes on running. */
async function typeAt(machine: Machine, code: string): Promise<string> {
  const dir = join(home, machine)
  const bootstrap = market.ready.addresses.find((address) => address.includes('/tcp/'))!
  const script = typed(machine, code)
  const sets = [...script.matchAll(/^export (\w+)='?([^'\n]*)'?$/gm)].map(([, name = '', value = '']) => [name, value])
  exported.set(machine, { ...exported.get(machine), ...Object.fromEntries(sets) })
  const env = { ...chainOf(), HOME: dir, BOOTSTRAP_PEERS: bootstrap, NO_COLOR: '1', ...exported.get(machine) }
  const last = script.trimEnd().split('\n').at(-1)!
  if (!/^stoa (?:start|worker --)/.test(last)) {
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { env, cwd: dir }).catch(
      (error: Error & { stdout?: string }) => {
        throw new Error(`${machine}: ${error.message}\n${error.stdout}`)
      },
    )
    return stdout
  }
  const begun = script.replace(last, `exec ${last}`)
  const child = spawn('bash', ['-euo', 'pipefail', '-c', begun], { env, cwd: dir, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const ready = new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (part) => {
        said += String(part)
        if (/Ctrl-C| works for /.test(said)) resolve()
      })
    }
    child.once('close', (code) => reject(new Error(`${last} ended with ${code}: ${said}`)))
  })
  const gone = once(child, 'close')
  running.set(machine, { kill: (signal) => child.kill(signal), gone })
  await ready
  return said
}

async function apiOf(machine: Machine): Promise<string> {
  const file = await readFile(join(home, machine, '.stoa/node.json'), 'utf8')
  return (JSON.parse(file) as { api_url: string }).api_url
}

const at = async <T>(machine: Machine, path: string) => ask<T>(await apiOf(machine), path)
const metricsOf = async (machine: Machine) => (await fetch(`${await apiOf(machine)}/metrics`)).text()

const found = async (machine: Machine, id: string) =>
  (await at<Diagnosis>(machine, '/diagnosis')).checks.filter((check) => check.id === id)

const seenBy = (machine: Machine) => at<NodeStatus>(machine, '/status')
/** How many agents each process sells, as a process sees it. */
const sellers = async (machine: Machine) =>
  (await at<Fleet>(machine, '/fleet')).processes.map(({ agents }) => agents.length)

test('a seller is set up on two machines with a worker, upgraded and brought back, as the page says', async () => {
  const blocks = blocksOf('production.md').filter(({ mark }) => MACHINES.includes(mark as Machine))
  const [stop, ...restart] = blocks.splice(blocks.findIndex(({ code }) => code.startsWith('stoa stop')))
  for (const { mark, code } of blocks) {
    // A person who reads takes longer than the processes to hear of each other.
    if (code.includes('stoa status')) await until(async () => (await seenBy('one')).processes?.alive === 2, WAIT)
    if (code.includes('stoa worker list')) await until(async () => (await sellers('two')).includes(2), WAIT)
    const said = await typeAt(mark as Machine, code)
    if (code.includes('stoa status')) expect(said).toMatch(/Processes +2 on this ledger\n/)
    if (code.includes('stoa worker list')) expect(said).toMatch(/connected/)
  }

  // Each process shows the whole seller.
  const [one, two] = await Promise.all([at<Fleet>('one', '/fleet'), at<Fleet>('two', '/fleet')])
  expect(one.processes.map(({ id, state }) => [id, state])).toEqual(two.processes.map(({ id }) => [id, 'selling']))
  expect(one.processes.map(({ answering }) => answering)).toEqual(two.processes.map(({ answering }) => !answering))
  expect(two.workers).toMatchObject([{ name: 'gpu', state: 'connected', agents: ['Counter'], runs_max: 2 }])
  expect(one.database).toEqual({ engine: 'postgres', server: expect.not.stringContaining('password') })
  expect(one.processes[0]).toMatchObject({ lease_seconds: expect.any(Number), read: { count: expect.any(Number) } })
  expect(await found('two', 'processes')).toMatchObject([
    { state: 'ok', text: expect.stringContaining('2, all alike') },
  ])
  expect(await found('two', 'workers')).toMatchObject([{ state: 'ok', text: '1 connected: gpu' }])
  const metrics = await metricsOf('one')
  expect(metrics).toContain('stoa_processes{state="selling"} 2')
  expect(metrics).toMatch(/stoa_database_seconds\{operation="change",quantile="0\.99"\} /)
  expect(metrics).toContain('stoa_worker_runs{kind="max"} 2')

  // Buyers find both agents at both machines.
  const listings = () => ask<{ name: string; addrs: string[] }[]>(market.ready.api_url, '/agents/discover')
  await until(async () => {
    const names = (await listings()).map(({ name }) => name)
    return names.includes('Counter') && names.includes('Summarizer')
  }, WAIT)

  // One process is upgraded.
  await typeAt('two', stop!.code)
  expect((await at<Fleet>('one', '/fleet')).ended).toMatchObject([{ how: 'stopped' }])
  await until(async () => (await seenBy('one')).processes?.alive === 1, WAIT)
  expect((await seenBy('one')).processes?.missing).toBe(0)
  for (const { mark, code } of restart) await typeAt(mark as Machine, code)
  expect((await at<Fleet>('one', '/fleet')).processes).toHaveLength(2)

  // A machine dies, is named, and comes back.
  running.get('two')!.kill('SIGKILL')
  await until(async () => (await seenBy('one')).processes?.missing === 1, WAIT)
  expect(await found('one', 'processes')).toMatchObject([{ state: 'warn', text: expect.stringContaining('was lost') }])
  expect(await metricsOf('one')).toContain('stoa_processes_missing 1')
  await typeAt('two', restart[0]!.code)
  await until(async () => (await seenBy('one')).processes?.missing === 0, WAIT)
}, 300_000)
