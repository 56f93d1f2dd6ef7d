/** Orders between real processes: what waits, what is canceled, what a kill leaves. The chain says what was paid. */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { NodeProcess } from '../../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { agentId } from '../../src/agents/agent-id.ts'
import type { OrderRecord } from '../../src/schema/order.ts'
import { ask, call, discovered } from '../support/api-calls.ts'
import { runStoa, startNode } from '../support/cli-node.ts'
import { begun, gone, hasEnded, slowProgram } from '../support/slow-agent.ts'
import { until } from '../support/until.ts'

type Order = Omit<OrderRecord, 'price'> & { price: string }

type Settlement = { pending: number; failed: number }

let devnet: Devnet
let home: string
let seller: NodeProcess
let environment: Record<string, string>
let slowId: string
const buyers: NodeProcess[] = []

const anyPort = ['--port', '0', '--api-port', '0', '--no-mdns']
const paid = async () => {
  const { chain, wallets } = devnet
  return { buyer: await chain.balanceOf(wallets.buyer.address), seller: await chain.balanceOf(wallets.seller.address) }
}

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-orders-'))
  devnet = await startDevnet()
  environment = {
    ETHEREUM_RPC_URL: devnet.rpcUrl,
    FACILITATOR_URL: devnet.facilitatorUrl,
    NODE_LISTEN_HOST: '127.0.0.1',
  }
  await mkdir(join(home, 'seller'), { mode: 0o700 })
  const agents = [{ name: 'slow', description: 'd', price: 0.1, command: slowProgram(home, 4_000) }]
  await writeFile(join(home, 'seller', 'agents.yaml'), JSON.stringify({ agents }))
  seller = await startNode([...anyPort, '--data-dir', join(home, 'seller')], {
    ...environment,
    SELLER_PRIVATE_KEY: devnet.wallets.seller.privateKey,
  })
  slowId = seller.ready.agents[0]!.id
})
afterEach(async () => {
  await Promise.all(buyers.splice(0).map((buyer) => buyer.stop()))
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const buyerArgs = () => ['--data-dir', join(home, 'buyer'), '--bootstrap', seller.ready.addresses[0]!]
const buyerEnvironment = () => ({ ...environment, BUYER_PRIVATE_KEY: devnet.wallets.buyer.privateKey })

async function startBuyer(): Promise<NodeProcess & { url: string }> {
  const buyer = await startNode([...anyPort, ...buyerArgs()], buyerEnvironment())
  buyers.push(buyer)
  await discovered(buyer.ready.api_url, slowId)
  return Object.assign(buyer, { url: buyer.ready.api_url })
}
const orderAt = (url: string, id: string) => ask<Order>(url, `/orders/${id}`)
const order = (url: string, body: object) => ask<Order>(url, '/orders', { body })
async function kill(node: NodeProcess): Promise<void> {
  node.child.kill('SIGKILL')
  if (node.child.exitCode === null && node.child.signalCode === null) await once(node.child, 'exit')
  buyers.splice(buyers.indexOf(node), 1)
}

test('D18: an order for an agent nobody knows waits, over a kill, and executes when the agent comes', async () => {
  const before = await paid()
  const first = await startBuyer()
  const later = agentId(seller.ready.peer_id, 'later')
  const { id, status } = await order(first.url, { agent_id: later, price: '0.2', task: 'hello' })
  expect(status).toBe('pending')
  await kill(first)

  const { url } = await startBuyer()
  expect(await orderAt(url, id)).toMatchObject({ status: 'pending', seller_id: null })
  const agent = { name: 'later', description: 'Repeats.', price: 0.2, model: 'builtin/echo' }
  await ask(seller.ready.api_url, '/agents', { body: agent })
  const done = await ask<Order>(url, `/orders/${id}?wait=30`)
  expect(done).toMatchObject({ status: 'completed', output: 'hello', seller_id: seller.ready.peer_id })
  await until(async () => (await orderAt(url, id)).payment?.settlement === 'settled')
  const after = await paid()
  expect([before.buyer - after.buyer, after.seller - before.seller]).toEqual([200_000n, 200_000n])
})

test('D18: canceling an order that runs ends the agent at its seller, and nobody is charged', async () => {
  const before = await paid()
  const { url } = await startBuyer()
  const { id } = await order(url, { agent_id: slowId, price: '0.1', task: 'cancel me' })
  const pid = await begun(home, 'cancel me')
  const canceled = await ask<Order>(url, `/orders/${id}`, { method: 'DELETE' })
  expect(canceled).toMatchObject({ status: 'cancelled', payment: { settlement: 'reserved' } })
  await gone(pid)
  expect(hasEnded(home, 'cancel me')).toBe(false)
  expect((await call(url, `/orders/${id}`, { method: 'DELETE' })).status).toBe(409)
  // What earlier tests have paid may still wait for the chain's word.
  const settlement = async () => (await ask<{ settlement: Settlement }>(seller.ready.api_url, '/status')).settlement
  await until(async () => (await settlement()).pending === 0)
  expect(await settlement()).toEqual({ pending: 0, failed: 0 })
  expect(await paid()).toEqual(before)
})

test('D18, T17: an order whose buyer is killed after it has paid is completed after the restart, and paid once', async () => {
  const before = await paid()
  const first = await startBuyer()
  const { id } = await order(first.url, { agent_id: slowId, price: '0.1', task: 'kill the buyer' })
  await begun(home, 'kill the buyer')
  await kill(first)
  const { url } = await startBuyer()
  const done = await ask<Order>(url, `/orders/${id}?wait=60`)
  expect(done).toMatchObject({ status: 'completed', output: 'slowly: kill the buyer' })
  await until(async () => (await paid()).buyer !== before.buyer)
  const after = await paid()
  expect([before.buyer - after.buyer, after.seller - before.seller]).toEqual([100_000n, 100_000n])
  expect(await ask<Order[]>(url, `/orders?agent_id=${slowId}&status=completed`)).toHaveLength(1)
})

test('T17: a buyer that stops lets its order run at the seller, and has its result after the start', async () => {
  const before = await paid()
  const first = await startBuyer()
  const { id } = await order(first.url, { agent_id: slowId, price: '0.1', task: 'stop the buyer' })
  await begun(home, 'stop the buyer')
  expect(await first.stop()).toBe(0)
  buyers.splice(0)
  await until(() => hasEnded(home, 'stop the buyer'))
  const { url } = await startBuyer()
  const done = await ask<Order>(url, `/orders/${id}?wait=60`)
  expect(done).toMatchObject({ status: 'completed', output: 'slowly: stop the buyer' })
  await until(async () => (await paid()).buyer !== before.buyer)
  expect(before.buyer - (await paid()).buyer).toBe(100_000n)
})

test('the command line creates, shows, waits for and cancels orders of the running node', async () => {
  await startBuyer()
  const stoa = (...args: string[]) => runStoa(['order', ...args, '--data-dir', join(home, 'buyer')], buyerEnvironment())
  const create = ['create', '--agent-id', slowId, '--price', '0.1', '--task', 'by command', '--wait', '--json']
  const done = JSON.parse(await stoa(...create)) as Order
  expect(done).toMatchObject({ status: 'completed', output: 'slowly: by command' })
  expect(JSON.parse(await stoa('show', done.id, '--json'))).toMatchObject({ id: done.id, output: done.output })
  const waiting = JSON.parse(await stoa('create', '--agent-id', slowId, '--price', '0.1', '--json')) as Order
  expect(await stoa('cancel', waiting.id)).toBe(`order ${waiting.id} is cancelled\n`)
  const lines = (await stoa('list')).trimEnd().split('\n')
  expect(lines[1]).toMatch(new RegExp(`^${waiting.id} {2}cancelled`))
  await expect(stoa('cancel', done.id)).rejects.toThrow(/is completed/)
})
