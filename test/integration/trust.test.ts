/** What a buyer and a seller have of each other after a paid call: receipts, measurements, ratings. Whole nodes, real chain. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type EIP712SignedReceipt, verifyReceiptSignatureEIP712 } from '@x402/extensions/offer-receipt'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { contentHash } from '../../src/payments/receipt.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import type { ReceiptRecord } from '../../src/schema/receipt-record.ts'
import { ask, call, discovered } from '../support/api-calls.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let seller: TestNode
let buyer: TestNode
let agentId: string

beforeAll(async () => {
  devnet = await startDevnet()
  const { wallets } = devnet
  seller = await startTestNode({ devnet, walletKey: wallets.seller.privateKey })
  const definition = { name: 'repeat', description: 'repeats', price: 10_000n, model: 'builtin/echo' }
  agentId = (await seller.node.registerAgent(definition, { persist: false })).id
  const bootstrap = seller.node.addresses().slice(0, 1)
  buyer = await startTestNode({ devnet, walletKey: wallets.buyer.privateKey, bootstrap })
  await discovered(buyer.url, agentId)
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await devnet?.stop()
})

test('D21: reputation is 503 without a chain, 400 for what is no token, 404 for one that nobody minted', async () => {
  const alone = await startTestNode()
  expect(await call(alone.url, '/agents/reputation/0')).toMatchObject({
    status: 503,
    body: { code: 'CHAIN_UNAVAILABLE', detail: expect.stringContaining('ETHEREUM_RPC_URL') },
  })
  await alone.stop()
  for (const bad of ['x', '-1', '1.5', '01', '9'.repeat(78)]) {
    expect([bad, (await call(buyer.url, `/agents/reputation/${bad}`)).status]).toEqual([bad, 400])
  }
  expect(await call(buyer.url, '/agents/reputation/123456')).toMatchObject({
    status: 404,
    body: { code: 'UNKNOWN_IDENTITY' },
  })
})

test('a paid call leaves the same receipt on both sides, exported and verified offline by the command line', async () => {
  const paid = await ask<{ output: string; payment: { payment_id: string } }>(buyer.url, `/agents/${agentId}/execute`, {
    body: { task: 'Grüße' },
  })
  const { payment_id } = paid.payment
  const [bought, sold] = await Promise.all(
    [buyer, seller].map(({ url }) => ask<ReceiptRecord>(url, `/receipts/${payment_id}`)),
  )
  expect(bought).toMatchObject({
    ...{ direction: 'out', status: 'valid', agent_name: 'repeat', amount: '0.01', peer_id: seller.node.peerId },
    ...{ payer: buyer.node.walletAddress, pay_to: seller.node.walletAddress },
  })
  expect(sold).toMatchObject({ direction: 'in', receipt: bought!.receipt, peer_id: buyer.node.peerId })
  expect(bought!.receipt!.payload.taskHash).toBe(contentHash('Grüße'))

  const csv = await fetch(`${buyer.url}/receipts/export?format=csv`)
  expect(csv.headers.get('content-type')).toBe('text/csv; charset=utf-8')
  expect(await csv.text()).toContain(payment_id)

  const dir = await mkdtemp(join(tmpdir(), 'stoa-receipts-'))
  const file = async (name: string, content: unknown) => {
    await writeFile(join(dir, name), typeof content === 'string' ? content : JSON.stringify(content))
    return join(dir, name)
  }
  const words = ['--no-warnings', 'src/main.ts', 'receipts', 'verify', await file('receipt.json', bought), '--json']
  const files = ['--task', await file('task', 'Grüße'), '--result', await file('result', paid.output)]
  const { stdout } = await promisify(execFile)(process.execPath, [...words, ...files, '--data-dir', join(dir, 'none')])
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, signer: seller.node.walletAddress, failed: [] })
  expect(bought!.receipt!.format).toBe('merkle')

  // Both sides give the receipt that x402 has, once the payment is settled: the seller signs it, the buyer asks for it.
  const [asked, given] = await until(async () => {
    const both = await Promise.all([buyer, seller].map(({ url }) => call(url, `/receipts/${payment_id}/x402`)))
    return both.every(({ status }) => status === 200) ? both.map(({ body }) => body) : undefined
  })
  expect(asked).toEqual(given)
  const { signer, payload } = await verifyReceiptSignatureEIP712(asked as unknown as EIP712SignedReceipt)
  expect(signer).toBe(seller.node.walletAddress)
  const mined = await devnet.chain.client.getTransactionReceipt({ hash: payload.transaction as Hex })
  expect([mined.status, payload.payer]).toEqual(['success', buyer.node.walletAddress])
  const x402 = ['--no-warnings', 'src/main.ts', 'receipts', 'verify', await file('x402.json', asked), '--json']
  const judged = await promisify(execFile)(process.execPath, [
    ...x402,
    '--signer',
    signer,
    '--data-dir',
    join(dir, 'none'),
  ])
  expect(JSON.parse(judged.stdout)).toMatchObject({ ok: true, signer, transaction: payload.transaction })
  await rm(dir, { recursive: true })
})

test('the buyer’s own measurements show in its listings', async () => {
  type Shown = { stats: Record<string, unknown> }
  // What was paid counts once the chain shows it (D41).
  const { stats } = await until(async () => {
    const shown = await ask<Shown>(buyer.url, `/agents/${agentId}?include=stats`)
    return shown.stats.settled_volume === '0' ? undefined : shown
  })
  expect(stats).toMatchObject({ calls: 1, success_rate: 1, settled_volume: '0.01', p50_ms: expect.any(Number) })
  const [listed] = await ask<Shown[]>(buyer.url, '/agents?include=stats')
  expect(listed?.stats).toEqual(stats)
  expect(await ask<Shown>(buyer.url, `/agents/${agentId}`)).not.toHaveProperty('stats')
})

test('an identity on the chain reaches the listing, the response and, rated by the buyer, everybody', async () => {
  expect(await call(buyer.url, `/agents/${agentId}/feedback`, { body: { score: 95 } })).toMatchObject({
    status: 404,
    body: { code: 'UNKNOWN_IDENTITY' },
  })
  const made = await call(seller.url, `/agents/${agentId}/register-onchain`, { body: {} })
  expect(made).toMatchObject({ status: 201, body: { agent_id: agentId, network: 'eip155:84532' } })
  const { token_id } = made.body as { token_id: string }
  const again = await call(seller.url, `/agents/${agentId}/register-onchain`, { body: {} })
  expect(again).toMatchObject({ status: 409, body: { code: 'ALREADY_REGISTERED' } })
  const elsewhere = await call(buyer.url, `/agents/${agentId}/register-onchain`, { body: {} })
  expect(elsewhere).toMatchObject({ status: 409, body: { code: 'NOT_YOUR_AGENT' } })

  type Listed = { token_id?: string; reputation?: { count: number; score: number } }
  const listing = () => ask<Listed>(buyer.url, `/agents/${agentId}?include=stats`)
  await until(async () => (await listing()).token_id === token_id, { everyMs: 50 })
  const given = await ask<object>(buyer.url, `/agents/${agentId}/feedback`, { body: { score: 95, tag1: 'fast' } })
  expect(given).toMatchObject({ token_id, score: 95, tx_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/) })
  expect(await ask(seller.url, `/agents/reputation/${token_id}`)).toMatchObject({ token_id, count: 1, score: 95 })
})

test('what others say is shown to a node that asks about the agent, as soon as the chain has answered', async () => {
  type Listed = { token_id: string; reputation?: { count: number; score: number } }
  const third = await startTestNode({ devnet, bootstrap: seller.node.addresses().slice(0, 1) })
  await discovered(third.url, agentId)
  const shown = await until(async () => (await ask<Listed>(third.url, `/agents/${agentId}?include=stats`)).reputation, {
    timeoutMs: 60_000,
    everyMs: 50,
  })
  expect(shown).toMatchObject({ count: 1, score: 95 })
  await third.stop()
})

test('buyer.rate_every: an agent is rated without being asked, by how many of its orders brought a result', async () => {
  const wallet = generatePrivateKey()
  const { address } = privateKeyToAccount(wallet)
  await devnet.fund(address, 1_000_000n)
  const bootstrap = seller.node.addresses().slice(0, 1)
  const rater = await startTestNode({ devnet, walletKey: wallet, bootstrap, buyer: { rateEvery: 2 } })
  await discovered(rater.url, agentId)
  const { token_id } = await ask<{ token_id: string }>(rater.url, `/agents/${agentId}`)
  const count = async () => (await ask<{ count: number }>(seller.url, `/agents/reputation/${token_id}`)).count
  const execute = () => ask(rater.url, `/agents/${agentId}/execute`, { body: { task: 'x' } })
  await execute()
  expect(await count()).toBe(1)
  await execute()
  await until(async () => (await count()) === 2, { everyMs: 50 })
  await rater.stop()
})
