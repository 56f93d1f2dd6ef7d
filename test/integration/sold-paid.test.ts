/** A tool and an operation that `stoa sell` found are bought on a real chain, and an agent of another node is found by its card. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { readAgentsFile } from '../../src/config/agents-yaml.ts'
import { cli } from '../cli/harness.ts'
import { type SoldApi, startSoldApi } from '../support/sold-api.ts'
import { type SoldMcp, startSoldMcp } from '../support/sold-mcp.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const KEY = 'pet-key-123456'
const sellerKey = generatePrivateKey()
const payee = privateKeyToAccount(sellerKey).address
let devnet: Devnet
let mcp: SoldMcp
let api: SoldApi
let home: string
let seller: TestNode
let buyer: TestNode

const sell = (...argv: string[]) =>
  cli(['sell', ...argv, '--yes', '--data-dir', home], { environment: { PETS_KEY: KEY, PATH: process.env.PATH! } })

beforeAll(async () => {
  devnet = await startDevnet()
  mcp = await startSoldMcp()
  api = await startSoldApi()
  home = await mkdtemp(join(tmpdir(), 'stoa-sold-'))
  const tools = await sell(mcp.url, '--tool', 'forecast', '--tool', 'fail', '--price', '0.01', '--no-test')
  const getPet = ['--operation', 'getPet', '--price', '0.02']
  const operations = await sell(`${api.url}/openapi.json`, '--api-key-env', 'PETS_KEY', ...getPet)
  expect([tools.code, operations.code]).toEqual([0, 0])
  seller = await startTestNode({ devnet, walletKey: sellerKey, environment: { PETS_KEY: KEY } })
  for (const agent of await readAgentsFile(join(home, 'agents.yaml')))
    await seller.node.registerAgent(agent, { persist: false })
  const bootstrap = [seller.node.addresses().find((address) => address.includes('/tcp/'))!]
  buyer = await startTestNode({ devnet, walletKey: devnet.wallets.buyer.privateKey, bootstrap })
  await until(() => buyer.node.listings().length === 3)
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await mcp?.[Symbol.asyncDispose]()
  await api?.[Symbol.asyncDispose]()
  await devnet?.stop()
  if (home !== undefined) await rm(home, { recursive: true, force: true })
})

const buy = (name: string, task: object) => {
  const { id } = buyer.node.listings().find((listing) => listing.name === name)!
  return buyer.node.execute({ agentId: id, input: JSON.stringify(task), signal: AbortSignal.timeout(60_000) })
}

test('T39 a tool and an operation are bought, and the chain has the money', async () => {
  const before = await devnet.chain.balanceOf(payee)
  const weather = await buy('Forecast', { city: 'Rome', days: 3 })
  expect(weather).toMatchObject({ output: 'Rome: sun for 3 days', payment: { amount_atomic: '10000' } })
  const pet = await buy('Get a pet', { petId: 9 })
  expect(JSON.parse(pet.output)).toMatchObject({ method: 'GET', url: '/v1/pets/9' })
  await until(async () => (await devnet.chain.balanceOf(payee)) === before + 30_000n)
})

test('T39 nobody is charged for a tool that failed, or for a task that does not fit', async () => {
  const before = await devnet.chain.balanceOf(payee)
  await expect(buy('fail', {})).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
  await expect(buy('Forecast', { days: 'many' })).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
  await expect(buy('Get a pet', { petId: '../admin' })).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
  await until(async () => (await seller.node.stats({ days: 1 })).earned.total_atomic === String(before))
  await until(async () => (await buyer.node.stats({ days: 1 })).paid.total_atomic === String(before))
  expect(await devnet.chain.balanceOf(payee)).toBe(before)
})

test('a model that is sold with runs_max gets no more calls at once; those that wait hold up nobody else, and all are answered', async () => {
  const waiting: (() => void)[] = []
  let peak = 0
  const model = createServer(async (request, response) => {
    const { messages } = JSON.parse(await text(request)) as { messages: { content: unknown }[] }
    peak = Math.max(peak, waiting.length + 1)
    await new Promise<void>((resolve) => void waiting.push(resolve))
    const message = { role: 'assistant', content: `said: ${JSON.stringify(messages.at(-1)!.content)}` }
    const answer = {
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  })
  await once(model.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void model.closeAllConnections())
  onTestFinished(() => void model.close())
  const model_url = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`
  const fields = { name: 'One card', description: 'A model on one card', price: 1_000n, runs_max: 2 }
  const sold = { ...fields, model: 'openai-compatible/m', model_url }
  const { id } = await seller.node.registerAgent(sold, { persist: false })
  await until(() => buyer.node.listings().some((listing) => listing.id === id))
  const paid = async () =>
    (await buyer.node.orders.list({ agentId: id, limit: 50 })).items.filter(({ payment }) => payment).length
  const before = await paid()
  const calls = ['one', 'two', 'three', 'four'].map((task) => buy('One card', { task }))
  await until(() => waiting.length === 2)
  await until(async () => (await paid()) - before === 4)
  expect(await buy('Forecast', { city: 'Oslo' })).toMatchObject({ output: 'Oslo: sun for 1 days' })
  expect([waiting.length, peak]).toEqual([2, 2])
  for (let answered = 0; answered < calls.length; answered++) (await until(() => waiting.shift()))()
  for (const [index, { output }] of (await Promise.all(calls)).entries()) {
    expect(output).toContain(['one', 'two', 'three', 'four'][index])
  }
  expect(peak).toBe(2)
})

test('the key and the address of a service are in no listing', () => {
  const listings = JSON.stringify(buyer.node.listings(), (_, value) => (typeof value === 'bigint' ? `${value}` : value))
  for (const secret of [KEY, 'PETS_KEY', mcp.url, api.url]) expect(listings).not.toContain(secret)
})

test('an A2A agent of another node is found by its address and by its card', async () => {
  const echo = { name: 'Echo', description: 'Says it again.', price: 0n, model: 'builtin/echo' }
  const { id } = await seller.node.registerAgent(echo, { persist: false })
  // Names of their own, also when the test is tried again.
  const [byAddress, byCard] = [`By address ${randomInt(1e9)}`, `By card ${randomInt(1e9)}`]
  const flags = ['--price', '0', '--sample', 'hello', '--test-changes']
  const found = await sell(`${seller.url}/a2a/${id}`, ...flags, '--name', byAddress)
  expect(found.stderr).toContain('found an A2A agent, Echo')
  expect(found.stderr).toMatch(new RegExp(`${byAddress} answered hello in \\d+ ms:\nhello`))
  const card = await sell(`${seller.url}/a2a/${id}/.well-known/agent-card.json`, ...flags, '--name', byCard)
  expect([found.code, card.code]).toEqual([0, 0])
  expect((await readAgentsFile(join(home, 'agents.yaml'))).slice(-2)).toMatchObject([
    { name: byAddress, a2a: `${seller.url}/a2a/${id}` },
    { name: byCard, a2a: expect.stringMatching(/agent-card\.json$/) },
  ])
})
