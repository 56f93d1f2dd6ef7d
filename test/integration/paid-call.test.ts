/** The paid call between whole nodes, over real connections, settled on the real chain. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createReplica } from '../../src/listings/replica.ts'
import { didOfPeer } from '../../src/p2p/did.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import { encodeFrame } from '../../src/protocols/frame.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { readMessage, writeMessage } from '../../src/protocols/x402/messages.ts'
import { TASK_BYTES_MAX } from '../../src/schema/limits.ts'
import type { PaymentRequirements } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { all, one } from '../../src/store/query.ts'
import { type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { askLedger, onServer } from '../support/ledger-engine.ts'
import { ownListing } from '../support/listings.ts'
import {
  discover,
  startTestNode,
  stopTestNodes,
  type TestNode,
  type TestNodeOptions,
  testDir,
} from '../support/loopback-node.ts'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { randomHex, requirements, usdc } from '../support/payments.ts'
import { RawPeer, said } from '../support/raw-peer.ts'
import { startTestHost } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
let devnet: Devnet
let faulty: FaultyFacilitator
const hosts: { stop(): Promise<void> }[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  faulty = await startFaultyFacilitator(devnet.facilitatorUrl)
})
afterEach(async () => {
  faulty.faults.length = 0
  await killNodeProcesses()
  await stopTestNodes()
  await Promise.all(hosts.splice(0).map((host) => host.stop()))
})
afterAll(async () => {
  await faulty.stop()
  await devnet.stop()
})

const chainSettings = () => ({ rpcUrl: devnet.rpcUrl, facilitatorUrl: faulty.url })
const addressOf = (node: Pick<TestNode, 'addresses'>, transport: 'tcp' | 'quic-v1' = 'tcp') =>
  node.addresses().find((address) => address.includes(`/${transport}`))!
const repeat = { name: 'repeat', description: 'repeats', price: PRICE, model: 'builtin/echo' }
const free = { ...repeat, name: 'free', price: 0n }

async function startSeller(options: Partial<TestNodeOptions> = {}): Promise<TestNode & { payee: Hex }> {
  const key = generatePrivateKey()
  const seller = await startTestNode({ key, ...chainSettings(), ...options })
  return Object.assign(seller, { payee: privateKeyToAccount(key).address })
}

/** A buyer with 1 USDC. */
async function startBuyer(
  seller: Pick<TestNode, 'addresses'>,
  options: Partial<TestNodeOptions> & { via?: 'tcp' | 'quic-v1' } = {},
) {
  const { via, ...settings } = options
  const key = settings.key ?? generatePrivateKey()
  const payer = privateKeyToAccount(key).address
  if (settings.key === undefined) await devnet.fund(payer, 1_000_000n)
  const buyer = await startTestNode({ ...chainSettings(), bootstrap: [addressOf(seller, via)], ...settings, key })
  return Object.assign(buyer, { payer, key })
}

async function startHost() {
  const host = await startTestHost()
  hosts.push(host)
  return host
}
const where = (node: TestNode) => ({ peerId: node.peerId, addrs: node.addresses() })
const signal = () => AbortSignal.timeout(100_000)

describe('a paid call', () => {
  test.each(['tcp', 'quic-v1'] as const)('over %s gives the result and moves the money', async (via) => {
    const seller = await startSeller()
    await seller.registerAgent(repeat)
    const buyer = await startBuyer(seller, { via })
    const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
    expect(
      buyer
        .peers()
        .flatMap(({ addresses }) => addresses)
        .join(),
    ).toContain(`/${via}`)
    const result = await buyer.execute({ agentId, input: 'hello', awaitsSettlement: true, signal: signal() })
    expect(result).toMatchObject({
      output: 'hello',
      payment: { amount: '0.01', payer: buyer.payer, pay_to: seller.payee, settlement: 'settled' },
    })
    const receipt = await devnet.chain.client.getTransactionReceipt({ hash: result.payment!.tx_hash as Hex })
    expect(receipt.status).toBe('success')
    expect(await devnet.chain.balanceOf(seller.payee)).toBe(PRICE)
    expect(await devnet.chain.balanceOf(buyer.payer)).toBe(1_000_000n - PRICE)
    await until(async () => (await seller.status()).settlement.pending === 0)
    // D41: the buyer's own chain says so a moment later.
    await until(async () => (await buyer.orders.get(result.order_id!)).payment?.settlement === 'settled', {
      timeoutMs: 60_000,
    })
  })

  test('carries many at once, each its own', async () => {
    const seller = await startSeller()
    await seller.registerAgent(repeat)
    const buyer = await startBuyer(seller)
    const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
    const tasks = Array.from({ length: 25 }, (_, index) => `task ${index}`)
    const results = await Promise.all(tasks.map((input) => buyer.execute({ agentId, input, signal: signal() })))
    expect(results.map(({ output }) => output)).toEqual(tasks)
    expect(new Set(results.map(({ payment }) => payment?.payment_id)).size).toBe(25)
    await until(async () => (await devnet.chain.balanceOf(seller.payee)) === 25n * PRICE)
  })

  test('can be paid for in advance, without a challenge', async () => {
    const seller = await startSeller()
    const { id } = await seller.registerAgent(repeat)
    const key = generatePrivateKey()
    const wallet = createWallet(key, usdc)
    await devnet.fund(wallet.address, 1_000_000n)
    const peer = await RawPeer.open(await startHost(), where(seller))
    const nonces = { serverNonce: 'preemptive', authorizationNonce: randomHex() } as const
    const { envelope, paymentId } = wallet.authorize(requirements({ payTo: seller.payee }), nonces, systemClock.now())
    const answer = await peer.request(id, 'in advance', { payment: envelope })
    expect(said(answer)).toBe('in advance')
    expect(answer?.message.payment_id).toBe(paymentId)
    expect(await devnet.chain.balanceOf(seller.payee)).toBe(PRICE)
    expect(said(await peer.request(id, 'again', { payment: envelope }))).toBe('PAYMENT_NONCE_USED')
  })

  test('of an own agent is not paid for', async () => {
    const seller = await startSeller()
    const { id: agentId } = await seller.registerAgent(repeat)
    expect(await seller.execute({ agentId, input: 'mine', signal: signal() })).toMatchObject({
      output: 'mine',
      payment: null,
    })
    expect(await devnet.chain.balanceOf(seller.payee)).toBe(0n)
  })
})

test('a free agent answers over both protocols, and a paid one is not to be had over the free one', async () => {
  const seller = await startSeller()
  const { id } = await seller.registerAgent(free)
  const buyer = await startBuyer(seller)
  const { id: agentId } = await discover(buyer, seller.peerId, 'free')
  expect(await buyer.execute({ agentId, input: 'hello', signal: signal() })).toMatchObject({
    output: 'hello',
    payment: null,
  })
  const peer = await RawPeer.open(await startHost(), where(seller))
  expect(said(await peer.request(id, 'hello again'))).toBe('hello again')
  expect(await devnet.chain.balanceOf(buyer.payer)).toBe(1_000_000n)
})

test('--settle-first: with the facilitator down nothing runs and the answer is 2007; once it is back the result is given', async () => {
  const runs = join(await testDir(), 'runs')
  const seller = await startSeller({ settleFirst: true })
  const command = ['/bin/sh', '-c', 'echo run >> "$0"; cat', runs]
  const { id } = await seller.registerAgent({ name: 'counted', description: 'counts', price: PRICE, command })
  const wallet = createWallet(generatePrivateKey(), usdc)
  await devnet.fund(wallet.address, 1_000_000n)
  const peer = await RawPeer.open(await startHost(), where(seller))
  const { payment, correlation_id } = await peer.pay(id, wallet, systemClock.now())
  faulty.faults.push({ kind: 'status', status: 503 })
  const body = Buffer.from('hello').toString('base64')
  const answer = await peer.ask('x402.paid_request', { correlation_id, payment, body })
  expect(answer?.message).toMatchObject({ error_code: 2007, error_name: 'SETTLEMENT_FAILED', retryable: true })
  expect(await readFile(runs, 'utf8').catch(() => 'none')).toBe('none')
  const result = await until(
    async () => {
      const asked = await peer.request(id, '', { method: 'result', payment })
      return asked?.type === 'x402.response' ? asked : undefined
    },
    { everyMs: 200 },
  )
  expect(said(result)).toBe('hello')
  expect(await readFile(runs, 'utf8')).toBe('run\n')
  expect(await devnet.chain.balanceOf(seller.payee)).toBe(PRICE)
})

describe('the buyer’s guard (D33)', () => {
  test('an empty wallet signs nothing: the refusal names its address and what is missing', async () => {
    const seller = await startSeller()
    await seller.registerAgent(repeat)
    const key = generatePrivateKey()
    const buyer = await startBuyer(seller, { key })
    const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
    await expect(buyer.execute({ agentId, input: 'x', signal: signal() })).rejects.toMatchObject({
      code: 'INSUFFICIENT_FUNDS',
      message: expect.stringMatching(`${buyer.payer} holds 0 USDC .* 0.01 USDC are missing`),
    })
    expect((await seller.status()).settlement).toEqual({ pending: 0, failed: 0 })
    await devnet.fund(buyer.payer, PRICE)
    expect((await buyer.execute({ agentId, input: 'x', signal: signal() })).output).toBe('x')
  })

  test('refuses a price over the call’s limit, the node’s limit and the day’s budget, and pays nothing', async () => {
    const seller = await startSeller()
    await seller.registerAgent(repeat)
    const buyer = await startBuyer(seller, { dailyBudgetAtomic: 15_000n })
    const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
    const buy = (changes: object = {}) => buyer.execute({ agentId, input: 'x', signal: signal(), ...changes })
    await expect(buy({ maxPriceAtomic: 9_999n })).rejects.toMatchObject({ code: 'OVER_PRICE' })
    await buy()
    await expect(buy()).rejects.toMatchObject({ code: 'OVER_BUDGET' })
    const cautious = await startBuyer(seller, { maxPriceAtomic: 9_999n })
    await discover(cautious, seller.peerId, 'repeat')
    await expect(cautious.execute({ agentId, input: 'x', signal: signal() })).rejects.toMatchObject({
      code: 'OVER_PRICE',
    })
    expect(await devnet.chain.balanceOf(seller.payee)).toBe(PRICE)
    expect(await devnet.chain.balanceOf(cautious.payer)).toBe(1_000_000n)
  })

  const lies: [string, Partial<PaymentRequirements>][] = [
    ['more than it listed', { amount: PRICE + 1n }],
    ['payment to another wallet', { payTo: '0x3333333333333333333333333333333333333333' }],
    ['payment on the main network', { network: 'eip155:8453', asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913' }],
  ]
  test.each(lies)('T2: signs nothing for a seller that asks for %s', async (_what, lie) => {
    const received: string[] = []
    const { seller, agentId } = await startLiar(lie, received)
    const buyer = await startBuyer(seller)
    await discover(buyer, seller.peerId, 'cheap')
    await expect(buyer.execute({ agentId, input: 'x', signal: signal() })).rejects.toMatchObject({
      code: 'LISTING_MISMATCH',
    })
    expect(received).toEqual(['x402.request'])
    await buyer.stop()
    expect(await reservationsIn(buyer.dataDir)).toBe(0)
  })

  /** A seller that lists one price, truly signed, and asks for another. */
  async function startLiar(lie: Partial<PaymentRequirements>, received: string[]) {
    const identity = await createIdentity()
    const seller = await startTestHost({ identity })
    const store = createListingStore(openDatabase({ path: ':memory:' }))
    const replica = createReplica({}, { host: seller, identity, store, clock: systemClock, logger: silentLogger })
    await replica.start()
    hosts.push({ stop: () => replica.stop().then(() => seller.stop()) })
    const { id: agentId } = await replica.publish(ownListing(seller.peerId, 'cheap', { price_atomic: PRICE }))
    await seller.handle(X402_PROTOCOL, (stream) => void demand(new FramedStream(stream), lie, received).catch(() => {}))
    return { seller, agentId }
  }
})

test('T1: a request for another seller’s agent is not bought elsewhere on the caller’s behalf', async () => {
  const victim = await startSeller()
  await victim.registerAgent(repeat)
  const relay = await startBuyer(victim)
  await relay.registerAgent(free, { persist: false })
  const { id } = await discover(relay, victim.peerId, 'repeat')
  const peer = await RawPeer.open(await startHost(), where(relay))
  expect(said(await peer.request(id, 'on the house'))).toBe('UNKNOWN_RESOURCE')
  const { envelope } = createWallet(generatePrivateKey(), usdc).authorize(
    requirements({ payTo: victim.payee }),
    { serverNonce: 'preemptive', authorizationNonce: randomHex() },
    systemClock.now(),
  )
  expect(said(await peer.request(id, 'on the house', { payment: envelope }))).toBe('UNKNOWN_RESOURCE')
  expect(await devnet.chain.balanceOf(relay.payer)).toBe(1_000_000n)
})

test('T9: a connection proves who a caller is, whatever its messages say', async () => {
  const seller = await startSeller()
  const { id } = await seller.registerAgent(free)
  const buyer = await startBuyer(seller)
  const { id: agentId } = await discover(buyer, seller.peerId, 'free')
  await buyer.execute({ agentId, input: 'the buyer’s own', signal: signal() })
  const host = await startHost()
  const peer = await RawPeer.open(host, where(seller))
  expect(said(await peer.request(id, 'an impostor’s', { caller_did: buyer.did }))).toBe('an impostor’s')
  await seller.stop()
  const heard = async (caller: string) => {
    const inputs = all<{ input: string }>(
      'SELECT input FROM exchanges WHERE agent_id = ? AND caller_id = ?',
      id,
      caller,
    )
    return (await askLedger(seller.dataDir, inputs)).map(({ input }) => input)
  }
  expect(await heard(buyer.did)).toEqual(['the buyer’s own'])
  expect(await heard(didOfPeer(host.peerId))).toEqual(['an impostor’s'])
})

test('T7: peers that stall inside a frame keep nobody else from being served, nor the node from stopping', async () => {
  const seller = await startSeller()
  await seller.registerAgent(repeat)
  const buyer = await startBuyer(seller)
  const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
  const host = await startHost()
  const half = encodeFrame({ type: 'x402.request', data: Buffer.alloc(1_000_000) }).subarray(0, 500_000)
  for (let index = 0; index < 30; index++) {
    const stream = await host.openStream(where(seller), X402_PROTOCOL, signal())
    stream.send(half)
  }
  expect(await buyer.execute({ agentId, input: 'hello', signal: signal() })).toMatchObject({ output: 'hello' })
  const began = performance.now()
  await seller.stop()
  expect(performance.now() - began).toBeLessThan(20_000)
})

test.each(['tcp', 'quic-v1'] as const)(
  'the longest task passes over %s, and one byte more is refused at home',
  async (via) => {
    const seller = await startSeller()
    await seller.registerAgent({ name: 'count', description: 'counts bytes', price: PRICE, command: ['wc', '-c'] })
    const buyer = await startBuyer(seller, { via })
    const { id: agentId } = await discover(buyer, seller.peerId, 'count')
    const result = await buyer.execute({ agentId, input: 'x'.repeat(TASK_BYTES_MAX), signal: signal() })
    expect(result.output.trim()).toBe(String(TASK_BYTES_MAX))
    const more = buyer.execute({ agentId, input: 'x'.repeat(TASK_BYTES_MAX + 1), signal: signal() })
    await expect(more).rejects.toMatchObject({ code: 'INPUT_TOO_LARGE' })
  },
)

test.each(['tcp', 'quic-v1'] as const)(
  'T23: the largest result passes over %s; one over the agent’s limit is not charged',
  async (via) => {
    const seller = await startSeller()
    const script = 'head -c "$(cat)" /dev/zero | tr "\\0" x'
    const largest = 4 * 1024 * 1024
    await seller.registerAgent({
      name: 'fill',
      description: 'answers at length',
      price: PRICE,
      command: ['/bin/sh', '-c', script],
      output_bytes_max: largest,
    })
    const buyer = await startBuyer(seller, { via })
    const { id: agentId } = await discover(buyer, seller.peerId, 'fill')
    const result = await buyer.execute({ agentId, input: String(largest), signal: signal() })
    expect(result.output.length).toBe(largest)
    const tooMuch = buyer.execute({ agentId, input: String(largest + 1), signal: signal() })
    await expect(tooMuch).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
    expect(await devnet.chain.balanceOf(seller.payee)).toBe(PRICE)
  },
)

// The disk of a database server is not ours to fill.
describe.skipIf(onServer)('T16: a seller whose disk is full', () => {
  const connections = new Set<DatabaseSync>()
  const { exec } = DatabaseSync.prototype
  const { run } = StatementSync.prototype
  /** Changes that a full disk has refused. */
  let refused = 0
  beforeAll(() => {
    StatementSync.prototype.run = function (...values) {
      try {
        return run.apply(this, values as never)
      } catch (error) {
        if (/full/.test(String(error))) refused += 1
        throw error
      }
    }
    DatabaseSync.prototype.exec = function (sql) {
      connections.add(this)
      return exec.call(this, sql)
    }
  })
  afterAll(() => {
    DatabaseSync.prototype.exec = exec
    StatementSync.prototype.run = run
  })
  /** Lets the database of a node grow by so many pages and no further, as a full disk does. */
  function limit(node: TestNode, pages: number): void {
    const path = join(node.dataDir, 'stoa.db')
    for (const connection of connections) {
      if (!connection.isOpen || connection.location() !== path) continue
      const { page_count } = connection.prepare('PRAGMA page_count').get() as { page_count: number }
      connection.prepare(`PRAGMA max_page_count = ${page_count + pages}`).get()
    }
  }
  const large = 'x'.repeat(500_000)

  /** A seller whose runs are counted, and a buyer of it. */
  async function counted({ settleFirst }: { settleFirst: boolean }) {
    const runs = join(await testDir(), 'runs')
    const seller = await startSeller({ settleFirst })
    const command = ['/bin/sh', '-c', 'echo run >> "$0"; cat', runs]
    await seller.registerAgent({ name: 'counted', description: 'counts', price: PRICE, command })
    const buyer = await startBuyer(seller)
    const { id: agentId } = await discover(buyer, seller.peerId, 'counted')
    const execute = () => buyer.execute({ agentId, input: large, awaitsSettlement: true, signal: signal() })
    const ran = async () => (await readFile(runs, 'utf8').catch(() => '')).length / 'run\n'.length
    return { seller, buyer, execute, ran }
  }

  test('at the claim runs nothing; the buyer is told and not charged, and the seller sells on when there is space', async () => {
    const { seller, buyer, execute, ran } = await counted({ settleFirst: true })
    limit(seller, 4)
    await expect(execute()).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
    expect(await ran()).toBe(0)
    limit(seller, 100_000)
    expect((await execute()).output).toBe(large)
    expect(await devnet.chain.balanceOf(seller.payee)).toBe(PRICE)
    expect(await devnet.chain.balanceOf(buyer.payer)).toBe(1_000_000n - PRICE)
  })

  test('at the result keeps it: the buyer waits, and has it for one price when there is space', async () => {
    const { seller, buyer, execute, ran } = await counted({ settleFirst: false })
    limit(seller, 4)
    refused = 0
    const bought = execute()
    await until(async () => (await ran()) === 1 && refused > 0)
    limit(seller, 100_000)
    expect((await bought).output).toBe(large)
    expect((await execute()).output).toBe(large)
    expect(await ran()).toBe(2)
    expect(await devnet.chain.balanceOf(seller.payee)).toBe(2n * PRICE)
    expect(await devnet.chain.balanceOf(buyer.payer)).toBe(1_000_000n - 2n * PRICE)
  })
})

describe('a seller that stops', () => {
  async function running(seconds: string) {
    const dir = await testDir()
    const key = generatePrivateKey()
    const agents = `agents:\n  - name: slow\n    description: takes its time\n    price: 0.01\n    command: [/bin/sh, -c, 'sleep ${seconds}; cat']\n`
    await writeFile(join(dir, 'agents.yaml'), agents)
    const environment = { SELLER_PRIVATE_KEY: key, ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: faulty.url }
    const start = (bootstrap: string) =>
      startNodeProcess({ args: ['--data-dir', dir, '--bootstrap', bootstrap], environment })
    const buyer = await startBuyer({ addresses: () => [] as string[] }, { bootstrap: [] })
    const seller = await start(addressOf(buyer))
    const { id: agentId } = await discover(buyer, seller.ready.peer_id, 'slow')
    return { dir, start, buyer, seller, agentId, payee: privateKeyToAccount(key).address }
  }
  const isClaimed = (dir: string) => until(async () => (await statesIn(dir)).length > 0, { everyMs: 20 })

  test('while an agent runs that soon ends, lets it end: the buyer has its result, the seller its money', async () => {
    const { dir, buyer, seller, agentId, payee } = await running('1')
    const buying = buyer.execute({ agentId, input: 'hello', signal: signal() })
    await isClaimed(dir)
    seller.child.kill('SIGTERM')
    expect(await seller.exited).toEqual({ code: 0, signal: null })
    expect((await buying).output).toBe('hello')
    expect(await devnet.chain.balanceOf(payee)).toBe(PRICE)
  })

  test('while an agent runs that does not end, ends within 5 s: the payment is void, the buyer is told by the next start', async () => {
    const { dir, start, buyer, seller, agentId, payee } = await running('60')
    const buying = buyer.execute({ agentId, input: 'hello', signal: signal() })
    buying.catch(() => {})
    await isClaimed(dir)
    const began = performance.now()
    seller.child.kill('SIGTERM')
    expect(await seller.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - began).toBeLessThan(20_000)
    expect(await statesIn(dir)).toEqual(['voided'])
    await start(addressOf(buyer))
    await expect(buying).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
    expect(await devnet.chain.balanceOf(payee)).toBe(0n)
  })
})

test('T17: a buyer that is stopped while its purchase runs has the result after its next start, and has paid once', async () => {
  const seller = await startSeller()
  const command = ['/bin/sh', '-c', 'sleep 10; cat']
  await seller.registerAgent({ name: 'slow', description: 'takes its time', price: PRICE, command })
  const first = await startBuyer(seller)
  const { id: agentId } = await discover(first, seller.peerId, 'slow')
  const buying = first.execute({ agentId, input: 'hello', signal: signal() })
  buying.catch(() => {})
  await until(async () => (await statesIn(seller.dataDir)).includes('authorized'), { everyMs: 20 })
  const began = performance.now()
  await first.stop()
  expect(performance.now() - began).toBeLessThan(20_000)
  await expect(buying).rejects.toMatchObject({ code: 'RESULT_PENDING' })
  const second = await startBuyer(seller, { key: first.key, dataDir: first.dataDir })
  const output = await until(async () => (await outputsIn(second.dataDir))[0], { everyMs: 100 })
  expect(output).toBe('hello')
  await until(async () => (await seller.status()).settlement.pending === 0)
  expect(await reservationsIn(second.dataDir)).toBe(1)
  expect(await devnet.chain.balanceOf(seller.payee)).toBe(PRICE)
})

/** Answers every message by asking for payment, until the stream ends. */
async function demand(stream: FramedStream, lie: Partial<PaymentRequirements>, received: string[]): Promise<void> {
  for (
    let asked = await readMessage(stream, signal());
    asked !== undefined;
    asked = await readMessage(stream, signal())
  ) {
    received.push(asked.type)
    const { correlation_id } = asked.message
    const challenge = { challenge_nonce: randomHex(), challenge_expires_at: 0, payment_requirements: requirements(lie) }
    const message = { version: '1.0', correlation_id, ...challenge, message: '', seller_did: '' } as const
    await writeMessage(stream, 'x402.payment_required', message, signal())
  }
}

async function statesIn(dir: string): Promise<string[]> {
  const rows = await askLedger(dir, all<{ state: string }>('SELECT state FROM payments'))
  return rows.map(({ state }) => state)
}

async function reservationsIn(dir: string): Promise<number> {
  return (await askLedger(dir, one<{ n: number }>('SELECT count(*) AS n FROM authorizations')))!.n
}

async function outputsIn(dir: string): Promise<string[]> {
  const rows = await askLedger(dir, all<{ output: string }>('SELECT output FROM orders WHERE output IS NOT NULL'))
  return rows.map(({ output }) => output)
}
