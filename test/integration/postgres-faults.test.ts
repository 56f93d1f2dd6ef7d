/** T16: paid calls while their ledgers in PostgreSQL crash, or lose their connections. The chain is the judge. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import { usdcEvents } from '../../devnet/chain.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all, type Query } from '../../src/store/query.ts'
import { eachByItself } from '../support/each-by-itself.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { type PostgresProxy, startPostgresProxy } from '../support/postgres-proxy.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { readServer } from '../support/server-ledgers.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
const CALLS = 32
const AT_ONCE = 8
const SETTLED_MS = 90_000
let devnet: Devnet
let server: PostgresServer

beforeAll(async () => {
  ;[devnet, server] = await Promise.all([startDevnet(), startPostgres()])
})
afterEach(stopTestNodes)
afterAll(async () => {
  await server.stop()
  await devnet.stop()
})

type Market = {
  seller: TestNode
  buyer: TestNode
  payee: Hex
  payer: Hex
  agentId: string
  /** One line for each run: its task. */
  runs(): Promise<string[]>
  ask<T>(who: 'seller' | 'buyer', query: Query<T>): Promise<T>
}
/** Names of databases: each test has two of its own. */
let made = 0

/** A seller and a buyer, each with a ledger on the server. @param port of a proxy before the server */
async function openMarket(port?: number): Promise<Market> {
  made += 1
  const [sells, buys] = [`seller_${made}`, `buyer_${made}`] as const
  const admin = new pg.Client(server.address('postgres'))
  await admin.connect()
  for (const name of [sells, buys]) await admin.query(`CREATE DATABASE ${name}`)
  await admin.end()
  const [key, buyerKey] = [generatePrivateKey(), generatePrivateKey()]
  const [payee, payer] = [privateKeyToAccount(key).address, privateKeyToAccount(buyerKey).address]
  await devnet.fund(payer, FUNDS)
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  const seller = await startTestNode({ key, ...chain, databaseUrl: server.address(sells, port) })
  const file = join(await testDir(), 'runs')
  const command = ['/bin/sh', '-c', 'task=$(cat); echo "$task" >> "$0"; sleep 0.1; printf %s "$task"', file]
  await seller.registerAgent({ name: 'repeat', description: 'repeats', price: PRICE, command })
  const bootstrap = [localAddress(seller.addresses())]
  const bought = { key: buyerKey, ...chain, bootstrap, dailyBudgetAtomic: 10_000_000n, ...eachByItself }
  const buyer = await startTestNode({ ...bought, databaseUrl: server.address(buys, port) })
  const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
  const readers = { seller: readServer(server.address(sells)), buyer: readServer(server.address(buys)) }
  onTestFinished(async () => void (await Promise.all(Object.values(readers).map((reader) => reader.close()))))
  const runs = async () => (await readFile(file, 'utf8').catch(() => '')).split('\n').filter(Boolean)
  return { seller, buyer, payee, payer, agentId, runs, ask: (who, query) => readers[who].query(query) }
}

/** Buys every task, some at a time. @returns what became of each */
async function buyAll({ buyer, agentId }: Market): Promise<Map<string, { output?: string; code?: string }>> {
  const tasks = Array.from({ length: CALLS }, (_, index) => `task ${index}`)
  const outcomes = new Map<string, { output?: string; code?: string }>()
  const left = tasks.values()
  const worker = async () => {
    for (const input of left) {
      const outcome = await buyer.execute({ agentId, input, signal: AbortSignal.timeout(60_000) }).then(
        ({ output }) => ({ output }),
        (error: { code?: string }) => ({ code: error.code ?? String(error) }),
      )
      outcomes.set(input, outcome)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return outcomes
}

const COUNT_OPEN = `SELECT count(*) AS n FROM orders WHERE status IN ('pending', 'executing')`
const COUNT_UNSETTLED = `SELECT count(*) AS n FROM payments WHERE state NOT IN ('settled', 'voided')`
const ENTRIES = `SELECT o.task, o.status, o.output, a.state, a.authorization_nonce AS nonce
  FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no`
type Entry = { task: string; status: string; output: string | null; state: string | null; nonce: Uint8Array | null }
const PAYMENTS = 'SELECT authorization_nonce AS nonce, state FROM payments'
type Payment = { nonce: Uint8Array; state: string }

/** The ledgers of both, the runs and the chain say the same, and nobody has lost anything. */
async function expectAgreement(market: Market, outcomes: Map<string, { output?: string }>): Promise<void> {
  const { payer, payee, ask } = market
  const count = async (who: 'seller' | 'buyer', sql: string) => (await ask(who, all<{ n: number }>(sql)))[0]!.n
  await until(async () => (await count('buyer', COUNT_OPEN)) === 0 && (await count('seller', COUNT_UNSETTLED)) === 0, {
    timeoutMs: SETTLED_MS,
    everyMs: 200,
  })
  const [entries, payments] = [await ask('buyer', all<Entry>(ENTRIES)), await ask('seller', all<Payment>(PAYMENTS))]
  const events = await devnet.chain.client.getLogs({
    event: usdcEvents.authorizationUsed,
    args: { authorizer: payer },
    fromBlock: 0n,
  })
  const used = events.map(({ args }) => args.nonce!.toLowerCase()).sort()
  const hex = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}`

  // Exact balances: what the ledger of the seller calls settled, and nothing else, has moved.
  expect(await devnet.chain.balanceOf(payee)).toBe(PRICE * BigInt(used.length))
  expect(await devnet.chain.balanceOf(payer)).toBe(FUNDS - PRICE * BigInt(used.length))
  const settled = payments.filter(({ state }) => state === 'settled').map(({ nonce }) => hex(nonce))
  expect(settled.sort()).toEqual(used)
  // One order and one signature for each task; the buyer has signed all that was charged.
  expect(new Set(entries.map(({ task }) => task)).size).toBe(entries.length)
  const signed = entries.filter(({ nonce }) => nonce !== null)
  expect(signed.map(({ nonce }) => hex(nonce!))).toEqual(expect.arrayContaining(used))
  expect(new Set(signed.map(({ nonce }) => hex(nonce!))).size).toBe(signed.length)
  // One run at most, and none without a signature.
  const runs = await market.runs()
  expect(new Set(runs).size).toBe(runs.length)
  expect(signed.map(({ task }) => task)).toEqual(expect.arrayContaining(runs))
  // What was charged was delivered, and what was delivered is charged.
  const charged = entries.filter(({ nonce }) => nonce !== null && used.includes(hex(nonce)))
  for (const entry of charged) {
    expect(entry).toMatchObject({ status: 'completed', output: entry.task, state: 'spent' })
  }
  const completed = entries.filter(({ status }) => status === 'completed')
  expect(completed).toHaveLength(charged.length)
  for (const [task, { output }] of outcomes) {
    if (output !== undefined)
      expect([output, completed.map((entry) => entry.task)]).toEqual([task, expect.arrayContaining([task])])
  }
}

test('T16 a database server that is killed in the middle of paid calls loses no debt, and nothing is bought, run or paid twice', async () => {
  const market = await openMarket()
  const buying = buyAll(market)
  for (const runs of [3, 14]) {
    await until(async () => (await market.runs()).length >= runs, { timeoutMs: 60_000, everyMs: 5 })
    await server.kill()
    await server.start()
  }
  const outcomes = await buying
  await expectAgreement(market, outcomes)
  // The market goes on by itself.
  const { buyer, agentId } = market
  expect(await buyer.execute({ agentId, input: 'after', signal: AbortSignal.timeout(100_000) })).toMatchObject({
    output: 'after',
  })
  const delivered = [...outcomes.values()].filter(({ output }) => output !== undefined)
  expect(delivered.length).toBeGreaterThan(CALLS / 2)
})

test.each(['cut', 'leave'] as const)(
  'T16 connections that break in mid-commit (%s) under paid calls change nothing about what is bought, run and paid',
  async (fate) => {
    const proxy: PostgresProxy = await startPostgresProxy({ host: server.host, port: server.port })
    onTestFinished(() => proxy.close())
    const market = await openMarket(proxy.port)
    let broken = 0
    let left = 200
    proxy.onMessage(({ type }) => {
      left -= 1
      if (left > 0 || broken >= 12 || type === '') return 'pass'
      broken += 1
      // Each meets another message of a commit or its answer. There is room for a new connection in between.
      left = 200 + ((broken * 37) % 120)
      return fate
    })
    const outcomes = await buyAll(market)
    expect(broken).toBeGreaterThan(5)
    proxy.onMessage(() => 'pass')
    await expectAgreement(market, outcomes)
    expect([...outcomes].filter(([task, { output }]) => task !== output)).toEqual([])
  },
)
