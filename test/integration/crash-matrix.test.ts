/** Sellers and buyers killed at every step of a paid call: real processes, SIGKILL, the real chain. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usdcEvents } from '../../devnet/chain.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all, together } from '../../src/store/query.ts'
import { askLedger } from '../support/ledger-engine.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes, type TestNode, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
let devnet: Devnet

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet.stop()
})

const chainEnvironment = () => ({ ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl })
const chainSettings = () => ({ rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl })

/** agents.yaml with an agent that repeats its task and one that fails, each after it has left a line in `runs`. */
async function writeAgents(dir: string, runs: string): Promise<void> {
  const agent = (name: string, script: string) =>
    `  - name: ${name}\n    description: ${name}s what it is given\n    price: 0.01\n    command: [/bin/sh, -c, '${script}', '${runs}']\n`
  await writeFile(
    join(dir, 'agents.yaml'),
    `agents:\n${agent('repeat', 'echo run >> "$0"; cat')}${agent('fail', 'echo run >> "$0"; exit 1')}`,
  )
}
async function countRuns(runs: string): Promise<number> {
  return (await readFile(runs, 'utf8').catch(() => '')).split('\n').filter(Boolean).length
}

describe('T16 a seller killed at', {}, () => {
  let buyer: TestNode
  beforeAll(async () => {
    buyer = await startTestNode({
      key: devnet.wallets.buyer.privateKey,
      ...chainSettings(),
      dailyBudgetAtomic: 10_000_000n,
    })
  })

  type Outcome = { result: 'delivered' | 'failed'; runs: number; paid: bigint }
  const delivered: Outcome = { result: 'delivered', runs: 1, paid: PRICE }
  const cases: [string, string, Outcome, { agent?: string; args?: string[] }?][] = [
    ['seller:paid-request', 'nothing was claimed: the payment is sent again and buys its one run', delivered],
    ['seller:verified', 'nothing was claimed: the payment is sent again and buys its one run', delivered],
    ['seller:claimed', 'the claim is void: nothing ran, nobody is charged', { result: 'failed', runs: 0, paid: 0n }],
    [
      'seller:executed',
      'the claim is void: the result is lost, nobody is charged',
      { result: 'failed', runs: 1, paid: 0n },
    ],
    ['seller:owed', 'the result is given by D32 and what is owed is settled', delivered],
    ['seller:settle-answered', 'the result is given by D32, and what was settled is found on chain', delivered],
    ['seller:answered', 'the buyer has its result, and what was settled is found on chain', delivered],
    ['seller:settled', 'the buyer has its result, and the payment is settled', delivered],
    ['seller:voided', 'a void payment stays void', { result: 'failed', runs: 1, paid: 0n }, { agent: 'fail' }],
    [
      'seller:settled-first',
      'what was settled first is run when its result is asked for',
      delivered,
      { args: ['--settle-first'] },
    ],
  ]
  test.each(cases)('%s: %s', async (faultPoint, _what, expected, { agent = 'repeat', args: more = [] } = {}) => {
    const dir = await testDir()
    const runs = join(dir, 'runs')
    await writeAgents(dir, runs)
    const key = generatePrivateKey()
    const payee = privateKeyToAccount(key).address
    const args = ['--data-dir', dir, '--bootstrap', localAddress(buyer.addresses()), ...more]
    const environment = { ...chainEnvironment(), SELLER_PRIVATE_KEY: key }

    const first = await startNodeProcess({ faultPoint, args, environment })
    const { id: agentId } = await discover(buyer, first.ready.peer_id, agent)
    const bought = buyer.execute({ agentId, input: `task of ${faultPoint}`, signal: AbortSignal.timeout(60_000) }).then(
      ({ output, payment }) => ({ output, payment }),
      (error: { code?: string }) => ({ code: error.code }),
    )
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    const second = await startNodeProcess({ args, environment })
    const outcome = await bought
    if (expected.result === 'delivered') {
      expect(outcome).toMatchObject({ output: `task of ${faultPoint}`, payment: { amount_atomic: '10000' } })
      const { payment } = outcome as { payment: { payment_id: string } }
      const kept = await buyer.receipts.get(payment.payment_id)
      // Settled work may be run after the restart before its buyer asks, and then nobody has asked for a shared receipt.
      const isAsked = faultPoint !== 'seller:settled-first'
      expect(kept).toMatchObject({ status: 'valid', ...(isAsked && { receipt: { format: 'merkle' } }) })
    } else expect(outcome).toEqual({ code: 'EXECUTION_FAILED' })

    // Whatever is owed comes to its end, and the ledger agrees with the chain.
    await until(async () => (await settlementOf(second)).pending === 0, { everyMs: 100 })
    expect(await settlementOf(second)).toEqual({ pending: 0, failed: 0 })
    expect(await devnet.chain.balanceOf(payee)).toBe(expected.paid)
    expect(await countRuns(runs)).toBe(expected.runs)
    await second.stop()
    expect(await statesOf(dir)).toEqual([expected.paid === 0n ? 'voided' : 'settled'])
    expect(await authorizationsUsedTo(payee)).toBe(expected.paid === 0n ? 0 : 1)
  })
})

describe('T16 a buyer killed at', { concurrent: true, timeout: 600_000 }, () => {
  let seller: TestNode
  beforeAll(async () => {
    seller = await startTestNode({ key: devnet.wallets.seller.privateKey, ...chainSettings() })
    await seller.registerAgent({ name: 'echo', description: 'repeats', price: PRICE, model: 'builtin/echo' })
  })

  type Expected = { orders: number; signed: number; delivered: 'never' | 'if paid' | 'always' }
  const cases: [string, string, Expected][] = [
    ['buyer:signed', 'nothing left it and nothing is kept', { orders: 0, signed: 0, delivered: 'never' }],
    [
      'buyer:reserved',
      'nothing was sent: the reservation stays until it is certain',
      { orders: 1, signed: 1, delivered: 'never' },
    ],
    ['buyer:sent', 'what was bought is fetched', { orders: 1, signed: 1, delivered: 'if paid' }],
    ['buyer:answered', 'what was bought is fetched', { orders: 1, signed: 1, delivered: 'always' }],
    [
      'after the result was stored',
      'nothing is bought or fetched again',
      { orders: 1, signed: 1, delivered: 'always' },
    ],
  ]
  test.each(cases)('%s: %s', async (faultPoint, _what, expected) => {
    const dir = await testDir()
    const key = generatePrivateKey()
    const payer = privateKeyToAccount(key).address
    await devnet.fund(payer, 1_000_000n)
    const args = ['--data-dir', dir, '--bootstrap', localAddress(seller.addresses())]
    const environment = { ...chainEnvironment(), BUYER_PRIVATE_KEY: key }

    const first = await startNodeProcess({ faultPoint, args, environment })
    const agentId = await until(() => agentAt(first, 'echo'), { timeoutMs: 60_000 })
    const answered = post(`${first.ready.api_url}/agents/${agentId}/execute`, { task: `task of ${faultPoint}` })
    if (faultPoint.startsWith('buyer:')) await answered.catch(() => {})
    else {
      expect(await answered).toMatchObject({ output: `task of ${faultPoint}` })
      first.child.kill('SIGKILL')
    }
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    const budget = (await ledgerOf(dir)).spent

    const second = await startNodeProcess({ args, environment })
    await until(async () => ((await get(second, '/peers')) as unknown[]).length > 0, { timeoutMs: 60_000 })
    await until(async () => (await ledgerOf(dir)).entries.every(({ status }) => status !== 'executing'), {
      timeoutMs: 60_000,
      everyMs: 100,
    })
    await second.stop()

    const { entries, spent } = await ledgerOf(dir)
    const signed = entries.filter(({ state }) => state !== null)
    expect([entries.length, signed.length]).toEqual([expected.orders, expected.signed])
    expect([budget, spent]).toEqual([expected.signed === 0 ? 0n : PRICE, expected.signed === 0 ? 0n : PRICE])
    await until(async () => (await seller.status()).settlement.pending === 0, { everyMs: 100 })
    const used = await authorizationsUsedBy(payer)
    expect(used).toBeLessThanOrEqual(1)
    expect(await devnet.chain.balanceOf(payer)).toBe(1_000_000n - BigInt(used) * PRICE)
    const isDelivered = expected.delivered === 'always' || (expected.delivered === 'if paid' && used === 1)
    if (expected.delivered === 'always') expect(used).toBe(1)
    for (const { status, output, state } of entries) {
      if (isDelivered) expect([status, output]).toEqual(['completed', `task of ${faultPoint}`])
      else expect(status).toBe('failed')
      expect(state).toBe(isDelivered ? 'spent' : 'reserved')
    }
  })
})

describe('a buyer killed while the agent runs', { concurrent: true, timeout: 600_000 }, () => {
  test.each(['tcp', 'quic-v1'] as const)(
    'over %s: the run goes on without it, is paid for once, and its result is there after the next start',
    async (transport) => {
      const key = generatePrivateKey()
      const payee = privateKeyToAccount(key).address
      const seller = await startTestNode({ key, ...chainSettings() })
      const runs = join(seller.dataDir, 'runs')
      const command = ['/bin/sh', '-c', 'echo run >> "$0"; sleep 1; cat', runs]
      await seller.registerAgent({ name: 'slow', description: 'takes its time', price: PRICE, command })
      const dir = await testDir()
      const buyerKey = generatePrivateKey()
      await devnet.fund(privateKeyToAccount(buyerKey).address, 1_000_000n)
      const bootstrap = seller.addresses().find((address) => address.includes(`/${transport}`))!
      const args = ['--data-dir', dir, '--bootstrap', bootstrap]
      const environment = { ...chainEnvironment(), BUYER_PRIVATE_KEY: buyerKey }

      const first = await startNodeProcess({ args, environment })
      const agentId = await until(() => agentAt(first, 'slow'), { timeoutMs: 60_000 })
      post(`${first.ready.api_url}/agents/${agentId}/execute`, { task: 'hello' }).catch(() => {})
      await until(async () => (await countRuns(runs)) === 1, { everyMs: 20 })
      first.child.kill('SIGKILL')
      await first.exited
      await until(async () => (await devnet.chain.balanceOf(payee)) === PRICE, { everyMs: 100 })

      const second = await startNodeProcess({ args, environment })
      const isCompleted = async () => (await ledgerOf(dir)).entries[0]?.status === 'completed'
      await until(isCompleted, { timeoutMs: 60_000, everyMs: 100 })
      await second.stop()
      const { entries, spent } = await ledgerOf(dir)
      expect(entries).toEqual([{ status: 'completed', output: 'hello', state: 'spent' }])
      expect([spent, await countRuns(runs), await authorizationsUsedTo(payee)]).toEqual([PRICE, 1, 1])
    },
  )
})

async function get({ ready }: NodeProcess, path: string): Promise<unknown> {
  return (await fetch(`${ready.api_url}${path}`)).json()
}

async function settlementOf(node: NodeProcess): Promise<{ pending: number; failed: number }> {
  return ((await get(node, '/status')) as { settlement: { pending: number; failed: number } }).settlement
}

async function agentAt(node: NodeProcess, name: string): Promise<string | undefined> {
  return ((await get(node, '/agents')) as { id: string; name: string }[]).find((agent) => agent.name === name)?.id
}

async function post(url: string, body: unknown): Promise<unknown> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  })
  return response.json()
}

/** The states of all payments in the ledger of a seller. */
async function statesOf(dir: string): Promise<string[]> {
  return (await askLedger(dir, all<{ state: string }>('SELECT state FROM payments'))).map(({ state }) => state)
}

type Entry = { status: string; output: string | null; state: string | null }

/** The ledger of a buyer. Its process may be writing it. */
async function ledgerOf(dir: string): Promise<{ entries: Entry[]; spent: bigint }> {
  const entriesOf = all<Entry>(
    'SELECT o.status, o.output, a.state FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no ORDER BY o.no',
  )
  const daysOf = all<{ amount: number }>(`SELECT amount FROM spending WHERE scope = '' AND length(period) = 10`)
  const [entries, days] = await askLedger(dir, together(entriesOf, daysOf))
  return { entries, spent: days.reduce((sum, { amount }) => sum + BigInt(amount), 0n) }
}

async function authorizationsUsedBy(authorizer: Hex): Promise<number> {
  return (
    await devnet.chain.client.getLogs({ event: usdcEvents.authorizationUsed, args: { authorizer }, fromBlock: 0n })
  ).length
}

async function authorizationsUsedTo(to: Hex): Promise<number> {
  return (await devnet.chain.client.getLogs({ event: usdcEvents.transfer, args: { to }, fromBlock: 0n })).length
}
