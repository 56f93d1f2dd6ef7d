/** The packed package, installed from the registry without development dependencies, on the oldest and on this Node.js. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { a2aClient, asTask, bindings, resultOf, send } from '../support/a2a-client.ts'
import { McpClients } from '../support/mcp-clients.ts'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { packPackage } from '../support/packed.ts'
import { keys, openTerminal } from '../support/terminal.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname
const { engines } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { engines: { node: string } }
const oldest = `${engines.node.replace('>=', '')}.0`
const scratch = await mkdtemp(join(tmpdir(), 'stoa-installed-'))
const place = join(scratch, 'installed')
const program = join(place, 'node_modules/.bin/stoa')
const stoa = join(place, 'node_modules/stoa')
let devnet: Devnet | undefined
afterEach(killNodeProcesses)
afterAll(async () => {
  await devnet?.stop()
  await rm(scratch, { recursive: true, force: true })
})

/** What npm says in an empty folder. */
async function npmInstall(folder: string, ...what: string[]): Promise<string> {
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const options = ['--no-audit', '--no-fund', '--fetch-retries=1', '--fetch-timeout=20000']
  const { stderr } = await run('npm', ['install', ...options, ...what], { cwd: folder })
  return stderr
}

const unreachable = /E(?:NOTFOUND|CONNREFUSED|CONNRESET|TIMEDOUT|AI_AGAIN)\b|network/
/** Why nothing can be installed here, or undefined. */
const absent = await (async () => {
  const { tarball } = await packPackage(scratch)
  try {
    const said = await npmInstall(place, '--omit=dev', tarball)
    // npm names the script of secp256k1, which compiles it where there is no build of it.
    expect(said.split('\n').filter((line) => /stoa@|deprecated|EBADENGINE|ERESOLVE|peer/.test(line))).toEqual([])
    await npmInstall(join(scratch, 'oldest'), `node@${oldest}`)
    return undefined
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string }
    if (!unreachable.test(stderr)) throw error
    return stderr.split('\n').find((line) => unreachable.test(line))
  }
})()
if (absent !== undefined) process.stderr.write(`skipped, as npm can install nothing here: ${absent}\n`)

const versions = [
  { name: `the oldest Node.js, ${oldest}`, execPath: join(scratch, 'oldest/node_modules/node/bin/node') },
  { name: `this Node.js, ${process.versions.node}`, execPath: process.execPath },
]
describe.skipIf(absent !== undefined).each(versions)('installed from the registry, on $name', ({ execPath }) => {
  const dataDir = join(scratch, execPath === process.execPath ? 'newest-data' : 'oldest-data')
  const offline = { NODE_LISTEN_HOST: '127.0.0.1', ETHEREUM_RPC_URL: 'http://127.0.0.1:9' }
  const start = (name: string, args: string[], environment: Record<string, string> = {}) =>
    startNodeProcess({
      program,
      execPath,
      args: ['--data-dir', join(dataDir, name), ...args],
      environment: { ...offline, FACILITATOR_URL: 'http://127.0.0.1:9', ...environment },
    })
  const echo = ['--name', 'Echo', '--description', 'Says it again.', '--model', 'builtin/echo']

  test('each binding answers, and the agents of modules run', async () => {
    const folder = join(dataDir, 'seller')
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const agents = ['js', 'ts'].map(
      (ext) => `- { name: ${ext}, description: loud, price: "0", module: ./${ext}.${ext} }`,
    )
    await writeFile(join(folder, 'agents.yaml'), `agents:\n  ${agents.join('\n  ')}\n`)
    await writeFile(join(folder, 'js.js'), 'export default (task) => task.toUpperCase()')
    await writeFile(join(folder, 'ts.ts'), 'export default (task: string): string => task.toUpperCase()')
    const { ready } = await start('seller', [...echo, '--price', '0'])
    const url = ready.api_url
    const own = (await json(`${url}/agents`)) as { id: string; name: string }[]
    const execute = async (at: string, id: string, task: string) =>
      ((await post(`${at}/agents/${id}/execute`, { task })) as { output: string }).output

    for (const { id, name } of own) expect(await execute(url, id, 'hello')).toBe(name === 'Echo' ? 'hello' : 'HELLO')
    expect(own.map(({ name }) => name).sort()).toEqual(['Echo', 'js', 'ts'])
    const { id } = own.find(({ name }) => name === 'Echo')!

    for (const binding of bindings) {
      const client = await a2aClient(`${url}/a2a/${id}`, binding)
      expect(resultOf(asTask(await client.sendMessage(send('over A2A'))))).toBe('over A2A')
    }
    const mcp = new McpClients()
    const overStdio = mcp.make('auto')
    const words = [program, 'mcp', '--data-dir', folder]
    await overStdio.connect(new StdioClientTransport({ command: execPath, args: words, stderr: 'pipe' }))
    for (const client of [await mcp.overHttp(url, 'auto'), overStdio]) await discoversEcho(client, id)
    await mcp.close()

    const buyer = await start('buyer', ['--bootstrap', ready.addresses[0]!])
    await until(async () => (await fetch(`${buyer.ready.api_url}/agents/${id}`)).ok)
    expect(await execute(buyer.ready.api_url, id, 'over libp2p')).toBe('over libp2p')

    expect(await json(`${url}/openapi.json`)).toMatchObject({ openapi: expect.stringMatching(/^3\./) })
    expect((await fetch(`${url}/metrics`)).status).toBe(200)
    const page = await (await fetch(`${url}/dashboard/`)).text()
    const script = /src="(\/dashboard\/assets\/[^"]+\.js)"/.exec(page)![1]!
    expect((await fetch(url + script)).headers.get('content-type')).toContain('javascript')
    expect((await json(`${url}/sessions?agent_id=${id}`)) as object).toBeDefined()
  })

  test('a paid call moves the money', async () => {
    devnet ??= await startDevnet()
    const chain = { ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl }
    const key = generatePrivateKey()
    await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
    const seller = await start('paid-seller', [...echo, '--price', '0.01'], chain)
    const [agent] = (await json(`${seller.ready.api_url}/agents`)) as { id: string }[]
    const bootstrap = ['--bootstrap', seller.ready.addresses[0]!]
    const buyer = await start('paid-buyer', bootstrap, { ...chain, ETHEREUM_PRIVATE_KEY: key })
    await until(async () => (await fetch(`${buyer.ready.api_url}/agents/${agent!.id}`)).ok)
    const bought = await post(`${buyer.ready.api_url}/agents/${agent!.id}/execute`, { task: 'paid' })
    expect(bought).toMatchObject({ output: 'paid', payment: { amount: '0.01' } })
    await until(async () => (await devnet!.chain.balanceOf(seller.ready.wallet_address as `0x${string}`)) === 10_000n)
    expect((await fetch(`${buyer.ready.api_url}/metrics`)).status).toBe(200)
  })

  test('the terminal interface runs, and no warning of Node.js is in it', async () => {
    const environment = { ...offline, NODE_DATA_DIR: join(dataDir, 'tui') }
    const words = [program, 'tui', '--no-mdns', '--port', '0', '--api-port', '0']
    const screen = openTerminal(words, { program: execPath, environment })
    await screen.shows('known')
    screen.type(`/exit${keys.enter}`)
    expect(await screen.exited).toBe(0)
    expect(screen.raw()).not.toContain('Warning')
    const env = { PATH: process.env.PATH, HOME: scratch }
    const { stdout, stderr } = await run(execPath, [program, 'wallet', 'address'], { env })
    expect({ stdout, stderr }).toEqual({
      stdout: expect.stringMatching(/^0x/),
      stderr: expect.not.stringContaining('Warning'),
    })
  })

  test('a program runs a node of its own', async () => {
    const text = `import { createConfig, createNode, loadConfig } from 'stoa'
      const { secrets } = await loadConfig({ dataDir: ${JSON.stringify(join(dataDir, 'own'))} }, {})
      const settings = { dataDir: ${JSON.stringify(join(dataDir, 'own'))}, port: 0, apiEnabled: false, mdns: false }
      const node = await createNode(createConfig(settings), secrets)
      await node.start()
      const define = { name: 'Shouter', description: 'Says it louder.', price: 0n }
      const { id } = await node.registerAgent(define, { run: (task) => task.toUpperCase() })
      const { output } = await node.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000) })
      console.log(output)
      await node.stop()`
    await writeFile(join(place, 'embed.mjs'), text)
    const env = { PATH: process.env.PATH, HOME: scratch, NODE_LISTEN_HOST: '127.0.0.1' }
    expect((await run(execPath, ['embed.mjs'], { cwd: place, env })).stdout).toBe('HELLO\n')
  })
})

test.skipIf(absent !== undefined)('installed it is at most 30 MB in 14 packages', async () => {
  const { stdout } = await run('du', ['-sm', join(place, 'node_modules')])
  expect(Number.parseInt(stdout, 10)).toBeLessThanOrEqual(30)
  const lock = JSON.parse(await readFile(join(place, 'package-lock.json'), 'utf8')) as { packages: object }
  expect((await readFile(join(stoa, 'dist/node/LICENSES.txt'), 'utf8')).length).toBeGreaterThan(100_000)
  const there = Object.values(lock.packages).filter((one: { os?: string[] }) => one.os === undefined)
  expect(there.length).toBeLessThanOrEqual(15)
})

async function discoversEcho(client: Client, id: string): Promise<void> {
  const found = await client.callTool({ name: 'discover_agents', arguments: { query: 'echo' } })
  expect(found).toMatchObject({ structuredContent: { agents: [{ agent_id: id }] } })
}

async function json(url: string, init: RequestInit = {}): Promise<unknown> {
  return (await fetch(url, init)).json()
}

function post(url: string, body: object): Promise<unknown> {
  return json(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
}
