/** A running node takes over changes of agents.yaml: real processes, a real chain, and a buyer that calls meanwhile. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { spawnStoa } from '../../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { NodeStatus } from '../../src/schema/api.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { OwnAgent, ReloadedAgents } from '../../src/schema/own-agent.ts'
import { ask, call } from '../support/api-calls.ts'
import { freePort } from '../support/loopback.ts'
import { startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { send, sendTask, signFor, termsAt } from '../support/public-seller.ts'
import { begun, hasEnded, letEnd, slowProgram } from '../support/slow-agent.ts'
import { type SoldMcp, startSoldMcp } from '../support/sold-mcp.ts'
import { until } from '../support/until.ts'

const WAIT = { everyMs: 50 }
const sellerKey = generatePrivateKey()
const payee = privateKeyToAccount(sellerKey).address
let devnet: Devnet
let mcp: SoldMcp
let home: string
let runs: string
let seller: NodeProcess
let publicUrl: string
let buyer: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  mcp = await startSoldMcp()
  home = await testDir()
  runs = await testDir()
  const port = await freePort()
  publicUrl = `http://127.0.0.1:${port}`
  await writeFile(join(home, 'config.yaml'), 'seller: {channels: off}\nopenai_door: on\n', { mode: 0o600 })
  seller = await startNodeProcess({
    args: ['--data-dir', home],
    environment: {
      ...{ ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl, ETHEREUM_PRIVATE_KEY: sellerKey },
      ...{ NODE_PUBLIC_HOST: '127.0.0.1', NODE_PUBLIC_PORT: String(port), NODE_PUBLIC_LISTENER_URL: publicUrl },
    },
  })
  const key = generatePrivateKey()
  await devnet.chain.mint(privateKeyToAccount(key).address, 1_000_000n)
  const bootstrap = [seller.ready.addresses.find((address) => address.includes('/tcp/'))!]
  const { rpcUrl, facilitatorUrl } = devnet
  buyer = await startTestNode({ key, bootstrap, rpcUrl, facilitatorUrl })
})
beforeEach(async () => {
  await writeFile(file(), 'agents: []\n')
  await reload()
})
afterAll(async () => {
  await stopTestNodes()
  await killNodeProcesses()
  await mcp?.[Symbol.asyncDispose]()
  await devnet?.stop()
})

const file = () => join(home, 'agents.yaml')
const reload = () => ask<ReloadedAgents>(seller.ready.api_url, '/agents/reload', { method: 'POST' })
const own = () => ask<OwnAgent[]>(seller.ready.api_url, '/agents/own')
const names = (agents: readonly OwnAgent[]) => agents.map(({ name }) => name)
const listedAt = (name: string) => buyer.listings().find((listing) => listing.name === name)
const seen = (name: string, price: bigint | undefined) => until(() => listedAt(name)?.price === price, WAIT)
const buy = (agentId: string, input: string) => buyer.execute({ agentId, input, signal: AbortSignal.timeout(60_000) })
const versions = async () =>
  new Map((await ask<Listing[]>(seller.ready.api_url, '/agents')).map(({ name, version }) => [name, version]))

/** Runs a command in a process of its own, as in a shell beside the node. */
async function stoa(...args: string[]) {
  const child = spawnStoa([...args, '--data-dir', home], { ETHEREUM_PRIVATE_KEY: sellerKey })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]!.on('data', (part: Buffer) => {
      said[name] += part
    })
  }
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...said }
}

function slow(name: string, price: string) {
  const command = slowProgram(runs, 'told').map((word) => `--command=${word}`)
  return stoa('agent', 'config', 'add', '--name', name, '--description', 'slow', '--price', price, ...command)
}

const echo = (name: string, fields = 'price: 0') =>
  `- {name: ${name}, description: repeats, model: builtin/echo, ${fields}}\n`

test('what stoa sell finds is on sale at once, through each door, without a restart', async () => {
  const sold = await stoa('sell', mcp.url, '--tool', 'forecast', '--price', '0.01', '--yes')
  expect(sold).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/Forecast is on the market for 0\.01 USDC: \w+\n$/),
  })
  const [{ id } = { id: '' }] = await own()
  await seen('Forecast', 10_000n)
  const bought = await buy(id, '{"city":"Rome"}')
  expect(bought).toMatchObject({ output: 'Rome: sun for 1 days', payment: { amount_atomic: '10000' } })

  const index = (await send(`${publicUrl}/x402`, { method: 'GET' })).json
  expect(index).toMatchObject({ agents: [{ agent_id: id, price_atomic: '10000' }] })
  const card = await send(`${publicUrl}/a2a/${id}/.well-known/agent-card.json`, { method: 'GET' })
  expect(card).toMatchObject({ status: 200, json: { name: 'Forecast' } })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${publicUrl}/mcp`)))
  const tools = async () => (await client.listTools()).tools.map(({ title }) => title)
  const models = async () =>
    (await ask<{ data: { id: string }[] }>(seller.ready.api_url, '/v1/models')).data.map((model) => model.id)
  const isModel = async () => (await models()).some((model) => model.includes(id))
  expect(await tools()).toEqual(['Forecast'])
  await until(isModel, WAIT)

  const removed = await stoa('agent', 'config', 'remove', '--name', 'Forecast')
  expect(removed).toMatchObject({ code: 0, stderr: 'Forecast is off the market\n' })
  expect((await send(`${publicUrl}/x402`, { method: 'GET' })).json).toMatchObject({ agents: [] })
  expect((await send(`${publicUrl}/a2a/${id}/.well-known/agent-card.json`, { method: 'GET' })).status).toBe(404)
  expect(await tools()).toEqual([])
  await until(async () => !(await isModel()), WAIT)
  await client.close()
  await seen('Forecast', undefined)
})

test('a call whose price changes while it runs is served at the old price, and the next one costs the new', async () => {
  expect((await slow('Slow', '0.01')).stderr).toContain('Slow is on the market for 0.01 USDC')
  const [{ id } = { id: '' }] = await own()
  await seen('Slow', 10_000n)
  const { version } = listedAt('Slow')!
  const [old, next] = [`old price ${randomInt(1e9)}`, `new price ${randomInt(1e9)}`]
  const running = buy(id, old)
  await begun(runs, old)
  const changed = await slow('Slow', '0.02')
  expect(changed.stderr).toContain('Slow was changed: it is on the market for 0.02 USDC')
  expect(hasEnded(runs, old)).toBe(false)
  letEnd(runs, old)
  expect(await running).toMatchObject({ output: `slowly: ${old}`, payment: { amount_atomic: '10000' } })
  await seen('Slow', 20_000n)
  expect(listedAt('Slow')!.version).toBeGreaterThan(version)
  letEnd(runs, next)
  expect(await buy(id, next)).toMatchObject({ payment: { amount_atomic: '20000' } })
})

test('while the price changes again and again, what buyers paid is what the seller earned, and failed calls cost nothing', async () => {
  const write = (price: string) => writeFile(file(), `agents:\n${echo('Busy', `price: ${price}`)}`)
  await write('0.01')
  const [{ id } = { id: '' }] = (await reload()).added
  await seen('Busy', 10_000n)
  const before = await devnet.chain.balanceOf(payee)
  let isOver = false
  let paid = 0n
  const made = new Map<string, number>()
  async function buyOn(worker: number): Promise<void> {
    for (let i = 0; !isOver; i += 1) {
      try {
        const { payment } = await buy(id, `${worker} ${i}`)
        paid += BigInt(payment!.amount_atomic)
        made.set(payment!.amount, (made.get(payment!.amount) ?? 0) + 1)
      } catch (error) {
        // The listing that the buyer has and the price that the seller asks may differ for a moment.
        expect((error as { code?: string }).code).toMatch(/LISTING_MISMATCH|PAYMENT_AMOUNT_WRONG|OVER_PRICE/)
      }
    }
  }
  const buying = Promise.all([1, 2, 3, 4].map(buyOn))
  for (const price of ['0.005', '0.01', '0.005', '0.01', '0.005']) {
    const before = made.get(price) ?? 0
    await write(price)
    expect(await reload()).toMatchObject({ changed: [{ name: 'Busy', price }] })
    await until(() => (made.get(price) ?? 0) > before + 1, WAIT)
  }
  isOver = true
  await buying
  await until(async () => (await devnet.chain.balanceOf(payee)) === before + paid, WAIT)
  const settled = async () => (await ask<NodeStatus>(seller.ready.api_url, '/status')).settlement
  await until(async () => (await settled()).pending === 0, WAIT)
  expect(await settled()).toEqual({ pending: 0, failed: 0 })
})

test('a payment that was signed for the old price and comes after the change is refused, and nobody is charged', async () => {
  await writeFile(file(), `agents:\n${echo('Echo', 'price: 0.01')}`)
  const [{ id } = { id: '' }] = (await reload()).added
  const url = `${publicUrl}/x402/${id}`
  const signed = await signFor(await termsAt(url), devnet.wallets.buyer.privateKey)
  const before = await devnet.chain.balanceOf(payee)
  await writeFile(file(), `agents:\n${echo('Echo', 'price: 0.02')}`)
  await reload()
  expect(await sendTask(url, 'late', signed)).toMatchObject({ status: 402 })
  expect(await devnet.chain.balanceOf(payee)).toBe(before)
  const anew = await signFor(await termsAt(url), devnet.wallets.buyer.privateKey)
  expect(await sendTask(url, 'anew', anew)).toMatchObject({ status: 200 })
  expect(await devnet.chain.balanceOf(payee)).toBe(before + 20_000n)
})

test('an agent that is removed in mid call ends its call and is paid, and takes no new one', async () => {
  await slow('Going', '0.01')
  const [{ id } = { id: '' }] = await own()
  await seen('Going', 10_000n)
  const last = `last call ${randomInt(1e9)}`
  const running = buy(id, last)
  await begun(runs, last)
  expect((await stoa('agent', 'config', 'remove', '--name', 'Going')).stderr).toBe('Going is off the market\n')
  expect(hasEnded(runs, last)).toBe(false)
  await expect(buy(id, 'too late')).rejects.toMatchObject({ code: expect.stringMatching(/UNKNOWN/) })
  letEnd(runs, last)
  expect(await running).toMatchObject({ output: `slowly: ${last}`, payment: { amount_atomic: '10000' } })
  expect(hasEnded(runs, 'too late')).toBe(false)
  await seen('Going', undefined)
})

test('a file that is half written, unreadable or gone changes nothing, and the error says what to do', async () => {
  const whole = `agents:\n${echo('One')}${echo('Two', 'price: 0.01')}`
  await writeFile(file(), whole)
  await reload()
  const before = await versions()
  const next = `agents:\n${echo('One', 'price: 0.5')}${echo('Two', 'price: 0.01')}${echo('Three', 'price: 0.01')}`
  const refused = async (message: RegExp) => {
    const run = await stoa('agent', 'reload')
    expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(message) })
    const answer = await call(seller.ready.api_url, '/agents/reload', { method: 'POST' })
    expect(answer).toMatchObject({ status: 409, body: { code: 'CONFIG_INVALID' } })
    expect([names(await own()), await versions()]).toEqual([['One', 'Two'], before])
  }
  await writeFile(file(), next.slice(0, -20))
  await refused(/agents\.yaml:\d+: /)
  await writeFile(file(), '')
  await refused(/agents\.yaml: the file is empty or missing.*write "agents: \[\]"/)
  await writeFile(
    file(),
    `agents:\n${echo('One', 'price: 0.5')}- {name: Bad, description: d, price: 0, command: [/none]}\n`,
  )
  await refused(/agents\.yaml:3: "Bad": command: .*\/none/)
  await rename(file(), `${file()}.away`)
  await refused(/the file is empty or missing/)
  // As root, a test cannot take a file's rights away from itself. This cannot be read by anybody.
  await mkdir(file())
  await refused(/this is not a file/)
  await rm(file(), { recursive: true })
  await rename(`${file()}.away`, file())

  await writeFile(file(), next)
  const run = await stoa('agent', 'reload', '--json')
  expect(JSON.parse(run.stdout)).toMatchObject({
    added: [{ name: 'Three', listed: true }],
    changed: [{ name: 'One', price: '0.5' }],
    ...{ removed: [], unchanged: 1, kept: [] },
  })
  expect((await versions()).get('Two')).toBe(before.get('Two'))
})

test('reloads and changes at once all hold, and nothing is listed twice', async () => {
  await writeFile(file(), `agents:\n${echo('Base')}`)
  await reload()
  const [{ id } = { id: '' }] = await own()
  const base = (await versions()).get('Base')
  await writeFile(file(), `agents:\n${echo('Base')}${echo('More')}`)
  const [one, two] = await Promise.all([reload(), reload()])
  expect([...one.added, ...two.added]).toMatchObject([{ name: 'More' }])
  expect((await versions()).get('Base')).toBe(base)
  const register = { name: 'Registered', description: 'd', price: 0, model: 'builtin/echo' }
  await Promise.all([
    reload(),
    ask(seller.ready.api_url, '/agents', { body: register }),
    ask(seller.ready.api_url, `/agents/${id}`, { method: 'PATCH', body: { price: 0.03 } }),
    reload(),
    stoa('agent', 'config', 'add', '--name', 'Added', '--description', 'd', '--price', '0', '--model', 'builtin/echo'),
    reload(),
  ])
  expect(names(await own()).sort()).toEqual(['Added', 'Base', 'More', 'Registered'])
  expect((await own()).find(({ name }) => name === 'Base')?.price).toBe('0.03')
  expect(await reload()).toMatchObject({ added: [], changed: [], removed: [], unchanged: 4 })
  expect(await readFile(file(), 'utf8')).toContain('price: 0.03')
})

test('agents of flags stay, and pauses in the file hold', async () => {
  const dir = await testDir()
  const flags = ['--name', 'Flag', '--description', 'd', '--price', '0', '--model', 'builtin/echo']
  await writeFile(join(dir, 'agents.yaml'), `agents:\n${echo('Filed')}`)
  const node = await startNodeProcess({ args: ['--data-dir', dir, ...flags], environment: {} })
  await writeFile(
    join(dir, 'agents.yaml'),
    `agents:\n${echo('Filed', 'price: 0, paused: true')}${echo('Flag', 'price: 1')}`,
  )
  expect(await ask(node.ready.api_url, '/agents/reload', { method: 'POST' })).toMatchObject({
    changed: [{ name: 'Filed', paused: true, listed: false }],
    ...{ added: [], removed: [], kept: ['Flag'] },
  })
  await writeFile(join(dir, 'agents.yaml'), 'agents: []\n')
  expect(await ask(node.ready.api_url, '/agents/reload', { method: 'POST' })).toMatchObject({
    removed: [{ name: 'Filed' }],
  })
  expect(await ask(node.ready.api_url, '/agents/own')).toMatchObject([{ name: 'Flag', price: '0', listed: true }])
  await node.stop()
})
