/** T41 D54: buying from x402 sellers over HTTP, those of others and Stoa's own, with money on a real chain. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { proveReceipt } from '../../src/payments/receipt-proof.ts'
import { call } from '../support/api-calls.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'
import { startExpressSeller, type WebSeller } from '../support/web-seller.ts'

const NEVER = new AbortController().signal
let devnet: Devnet
let seller: TestNode
let express: WebSeller
let buyer: TestNode
const asked: string[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey, public: { port: 0 } })
  express = await startExpressSeller({
    facilitatorUrl: devnet.facilitatorUrl,
    payTo: devnet.wallets.seller.address,
    answer({ body }, response) {
      asked.push(body)
      response.json({ said: JSON.parse(body).task })
    },
  })
  const privateOrigins = [express.origin, new URL(seller.publicUrl).origin]
  buyer = await startTestNode({ devnet, walletKey: devnet.wallets.buyer.privateKey, buyer: { privateOrigins } })
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await express?.stop()
  await devnet?.stop()
})

const money = () =>
  Promise.all([devnet.wallets.buyer, devnet.wallets.seller].map(({ address }) => devnet.chain.balanceOf(address)))
async function moved(work: () => Promise<unknown>): Promise<bigint[]> {
  const before = await money()
  await work()
  const after = await money()
  return [before[0]! - after[0]!, after[1]! - before[1]!]
}

test('buys from @x402/express: one order, one payment, and the result as it came', async () => {
  let result: Awaited<ReturnType<typeof buyer.node.buyUrl>> | undefined
  const paid = await moved(async () => {
    result = await buyer.node.buyUrl({ url: express.url, task: 'hello', maxPriceAtomic: 20_000n, signal: NEVER })
  })
  expect(paid).toEqual([10_000n, 10_000n])
  expect(result).toMatchObject({
    agent_id: express.url,
    seller_id: `${express.origin}#${devnet.wallets.seller.address.toLowerCase()}`,
    output: '{"said":"hello"}',
    web: { url: express.url, method: 'POST', x402_version: 2, content_type: 'application/json; charset=utf-8' },
    payment: { amount: '0.01', tx_hash: expect.stringMatching(/^0x[0-9a-f]{64}$/) },
  })
  expect(result!.notes).toBeUndefined()
  expect(asked).toEqual(['{"task":"hello"}'])
  const order = await until(async () => {
    const found = await buyer.node.orders.get(result!.order_id!)
    return found.payment?.book === 'paid' ? found : undefined
  })
  expect(order).toMatchObject({ status: 'completed', agent_id: express.url, payment: { settlement: 'settled' } })
})

test('buys an agent of a Stoa seller, with its receipts', async () => {
  const { id } = await seller.node.registerAgent(
    { name: 'echo', description: 'Says it again', price: 30_000n },
    { persist: false, run: async (task) => `${task}!` },
  )
  const url = `${seller.publicUrl}/x402/${id}`
  const before = await money()
  const result = await buyer.node.buyUrl({ url, task: 'hello', signal: NEVER })
  expect(result).toMatchObject({
    output: 'hello!',
    web: { receipt: { payload: { resourceUrl: url } } },
    payment: { amount: '0.03' },
  })
  expect(result.notes).toBeUndefined()
  const after = await money()
  expect([before[0]! - after[0]!, after[1]! - before[1]!]).toEqual([30_000n, 30_000n])
  const { items } = await buyer.node.receipts.list({ limit: 10 })
  const kept = items.find(({ agent_id }) => agent_id === url)!
  expect(kept).toMatchObject({ status: 'valid' })
  // What the node gives out again is what the seller signed.
  const [task, answer] = ['hello', 'hello!'].map((text) => Buffer.from(text))
  const proof = proveReceipt({ ...kept, receipt: kept.receipt!, task, result: answer })
  expect(proof).toMatchObject({ ok: true, failed: [], signer: devnet.wallets.seller.address })
})

test('the receipt of a Stoa seller is about the task in a body that the buyer wrote', async () => {
  const { id } = await seller.node.registerAgent(
    { name: 'written', description: 'Says it again', price: 30_000n },
    { persist: false, run: async (task) => `${task}!` },
  )
  const url = `${seller.publicUrl}/x402/${id}`
  for (const [body, output] of [
    ['{ "task": "by body" }', 'by body!'],
    ['plain text', 'plain text!'],
  ] as const) {
    const bought = await buyer.node.buyUrl({ url, body, signal: NEVER })
    expect(bought.output).toBe(output)
    const { items } = await buyer.node.receipts.list({ limit: 1 })
    expect(items[0]).toMatchObject({ agent_id: url, status: 'valid' })
  }
})

test('POST /execute takes a URL, and a repeat with the same key buys nothing', async () => {
  const body = { url: express.url, task: 'keyed', max_price: '0.02', expected: { price: '0.01' } }
  const send = () => call(buyer.url, '/execute', { body, headers: { 'idempotency-key': 'one-key' } })
  const paid = await moved(async () => {
    const first = await send()
    const second = await send()
    expect([first.status, second.status]).toEqual([200, 200])
    expect((second.body as { order_id: string }).order_id).toBe((first.body as { order_id: string }).order_id)
  })
  expect(paid).toEqual([10_000n, 10_000n])
})

test('signs nothing above the limit of the caller, or for other terms than expected', async () => {
  const buy = (more: object) => buyer.node.buyUrl({ url: express.url, task: 'no', signal: NEVER, ...more })
  const paid = await moved(async () => {
    await expect(buy({ maxPriceAtomic: 9_999n })).rejects.toMatchObject({ code: 'OVER_PRICE' })
    await expect(buy({ expected: { amount: 9_999n } })).rejects.toMatchObject({ code: 'TERMS_REFUSED' })
    await expect(buy({ expected: { payTo: `0x${'1'.repeat(40)}` } })).rejects.toMatchObject({ code: 'TERMS_REFUSED' })
    await expect(buy({ expected: { network: 'eip155:1' } })).rejects.toMatchObject({ code: 'TERMS_REFUSED' })
  })
  expect(paid).toEqual([0n, 0n])
  expect(asked).not.toContain('{"task":"no"}')
})

test('lists, books and receipts of the API show purchases over HTTP, and an approval lets the order run', async () => {
  const host = new URL(express.origin).host
  for (const path of ['/orders', '/payments', '/receipts', '/stats', '/metrics', '/budget']) {
    const { status } = await fetch(buyer.url + path)
    expect([path, status]).toEqual([path, 200])
  }
  await call(buyer.url, '/budget', { method: 'PUT', body: { auto_approve_below: '0.005' } })
  const body = { url: express.url, task: 'ask first' }
  const { status, body: problem } = await call(buyer.url, '/execute', { body })
  expect([status, (problem as { code: string }).code]).toEqual([402, 'APPROVAL_REQUIRED'])
  const { approval_id, order_id } = problem as { approval_id: string; order_id: string }
  expect(asked).not.toContain('{"task":"ask first"}')
  await call(buyer.url, `/approvals/${approval_id}/approve`, { method: 'POST', body: {} })
  const order = await until(async () => {
    const found = await buyer.node.orders.get(order_id)
    return found.status === 'completed' ? found : undefined
  })
  expect(order).toMatchObject({ agent_name: `${host}/run`, seller_name: host, output: '{"said":"ask first"}' })
  await call(buyer.url, '/budget', { method: 'PUT', body: { auto_approve_below: null, deny: [host] } })
  await expect(buyer.node.buyUrl({ url: express.url, task: 'denied', signal: NEVER })).rejects.toMatchObject({
    code: 'SELLER_NOT_ALLOWED',
  })
})

test.each([
  ['behind', -10 * 60_000],
  ['ahead', 10 * 60_000],
])(
  'T16: a seller that refuses the payment of a node whose clock is %s: the buyer is told of its clock',
  async (_, off) => {
    const wrong = await startTestNode({
      devnet,
      walletKey: devnet.wallets.buyer.privateKey,
      buyer: { privateOrigins: [express.origin, new URL(seller.publicUrl).origin] },
      ports: { clock: { now: () => Date.now() + off, monotonic: () => performance.now() } },
    })
    onTestFinished(() => wrong.stop())
    const told = expect.stringMatching(
      /answered 402 .* says ".*(?:valid|expires).*": its time may be over, or the clock of this node may be wrong \(stoa doctor/,
    )
    const { id } = await seller.node.registerAgent(
      { name: `late ${off}`, description: 'Says it again', price: 10_000n },
      { persist: false, run: async (task) => task },
    )
    for (const url of [express.url, `${seller.publicUrl}/x402/${id}`]) {
      const bought = wrong.node.buyUrl({ url, task: 'late', maxPriceAtomic: 20_000n, signal: NEVER })
      await expect(bought).rejects.toMatchObject({ code: 'RESULT_PENDING', message: told })
    }
    expect(asked).not.toContain('{"task":"late"}')
  },
)
