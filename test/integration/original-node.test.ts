/** Agents of the original node of this protocol: imported by hand, bought in its own form. */
import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { addresses } from '../../devnet/contracts.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { FramedStream } from '../../src/protocols/framed-stream.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'
import { ask, call } from '../support/api-calls.ts'
import { startTestHost, whereIs } from '../support/test-host.ts'
import { startTestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PAID = 'did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH'
const FREE = 'did:key:z6MkfreefreefreefreefreefreefreefreefreefreefreefRee'
let devnet: Devnet
const cleanups: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  devnet = await startDevnet()
})
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
afterAll(() => devnet.stop())

type Json = Record<string, unknown>
type Payment = { server_nonce: string; payload: Json & { authorization: { nonce: string } } }

/**
 * Answers as the original node does: one message a stream, nonce without 0x, the agent read from the body alone.
 *
 * It settles before its agent runs, takes an authorization once, and any request with a payment for a payment.
 */
async function originalSeller() {
  const host = await startTestHost()
  cleanups.push(() => host.stop())
  const tasks: string[] = []
  const received: Json[] = []
  const used = new Set<string>()
  const nonces = new Map<unknown, string>()
  const asked = {
    scheme: 'exact',
    network: 'eip155:84532',
    amount: '50000',
    asset: addresses.usdc,
    payTo: devnet.wallets.seller.address,
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2' },
  }

  async function settle(payload: Json): Promise<string> {
    const paymentPayload = { x402Version: 2, accepted: asked, payload }
    const body = { x402Version: 2, paymentPayload, paymentRequirements: asked }
    return (await ask<{ transaction: string }>(devnet.facilitatorUrl, '/settle', { body })).transaction
  }
  const body = (json: Json) => Buffer.from(JSON.stringify(json)).toString('base64')
  const read = (message: Json): Json => {
    try {
      return JSON.parse(Buffer.from(message.body as string, 'base64').toString()) as Json
    } catch {
      return {}
    }
  }

  async function answer(type: string, message: Json): Promise<[string, Json]> {
    const header = { version: '1.0', correlation_id: message.correlation_id }
    const refuse = (error_code: number, error_name: string, why: string): [string, Json] => [
      'x402.error',
      { ...header, error_code, error_name, message: why, retryable: error_code === 2003 || error_code === 2007 },
    ]
    const run = (seller_did: unknown, input: unknown, tx_hash: string): [string, Json] => {
      tasks.push(String(input))
      if (input === 'FAIL') return refuse(3000, 'EXECUTION_FAILED', 'failed to run agent: adk run failed')
      const output = body({ output: `done: ${input}` })
      return ['x402.response', { ...header, payment_id: '', tx_hash, body: output, seller_did }]
    }
    if (type === 'x402.request' && message.resource === FREE) return run(FREE, read(message).input, '')
    const payment = message.payment as Payment | null
    if (type === 'x402.request' && payment === null) {
      const expires = Math.floor(Date.now() / 1000) + 300
      const nonce = randomBytes(32).toString('hex')
      nonces.set(message.correlation_id, nonce)
      return [
        'x402.payment_required',
        {
          ...header,
          challenge_nonce: nonce,
          challenge_expires_at: expires,
          payment_requirements: asked,
          message: 'Payment required',
          seller_did: message.resource,
        },
      ]
    }
    const { resource = message.resource, input } = read(message)
    if (type === 'x402.paid_request') {
      const nonce = nonces.get(message.correlation_id)
      nonces.delete(message.correlation_id)
      if (nonce === undefined) return refuse(2003, 'PAYMENT_NONCE_EXPIRED', 'challenge expired or unknown')
      if (payment!.server_nonce !== nonce) return refuse(2002, 'PAYMENT_NONCE_MISMATCH', 'nonce mismatch')
      if (payment!.payload.authorization.nonce !== `0x${nonce}`)
        return refuse(2002, 'PAYMENT_NONCE_MISMATCH', 'auth nonce')
      if (resource === undefined) return refuse(1000, 'INVALID_MESSAGE', 'missing resource in body')
    }
    const { authorization } = payment!.payload
    if (used.has(authorization.nonce))
      return refuse(2007, 'SETTLEMENT_FAILED', 'payment validation failed: nonce already used')
    used.add(authorization.nonce)
    const tx_hash = await settle(payment!.payload)
    if (resource !== PAID) return refuse(3000, 'EXECUTION_FAILED', `agent not found: ${resource}`)
    return run(PAID, input, tx_hash)
  }

  await host.handle(X402_PROTOCOL, (raw) => {
    void (async () => {
      const stream = new FramedStream(raw)
      const signal = AbortSignal.timeout(100_000)
      const frame = await stream.read(signal)
      if (frame === undefined) return
      const message = JSON.parse(Buffer.from(frame.data).toString()) as Json
      received.push(message)
      const [type, reply] = await answer(frame.type, message)
      await stream.writeText(type, JSON.stringify(reply), signal)
      await stream.close()
    })().catch(() => {})
  })
  const { peerId, addrs } = whereIs(host, 'tcp')
  return { peer: `${addrs[0]!.replace(/\/p2p\/.*/, '')}/p2p/${peerId}`, tasks, received }
}

async function bookOf(url: string, orderId: unknown): Promise<unknown> {
  return (await ask<{ payment: Json }>(url, `/orders/${orderId}`)).payment.book
}

async function buyerOf() {
  const node = await startTestNode({ devnet, walletKey: devnet.wallets.buyer.privateKey })
  cleanups.push(() => node.stop())
  return node
}

test('a paid agent of the original node is imported at its price and bought; its answer is unwrapped', async () => {
  const seller = await originalSeller()
  const buyer = await buyerOf()
  const agent = { peer: seller.peer, agent_id: PAID, price: '0.05', name: 'Theirs' }
  const listing = await ask<Json>(buyer.url, '/imports', { body: agent })
  expect(listing).toMatchObject({
    name: 'Theirs',
    price_atomic: '50000',
    pay_to: devnet.wallets.seller.address,
    imported: { agent_id: PAID },
    local: false,
    buyable: true,
  })
  const listed = await ask<Json[]>(buyer.url, '/agents?q=theirs')
  expect(listed).toMatchObject([{ id: listing.id }])
  const bought = await ask<Json>(buyer.url, `/agents/${listing.id}/execute`, { body: { task: 'the task' } })
  expect(bought).toMatchObject({ output: 'done: the task', payment: { amount: '0.05' } })
  expect([seller.tasks, (bought.notes as string[]).join()]).toEqual([
    ['the task'],
    'payment_id is empty; seller_token_id is missing',
  ])
  const order = await ask<Json>(buyer.url, `/orders/${bought.order_id}`)
  expect(order).toMatchObject({ status: 'completed', agent_id: listing.id, output: 'done: the task' })
  await until(async () => (await bookOf(buyer.url, order.id)) === 'paid')
})

test('an agent of the original node is known by its id alone, whether or not its seller’s peer id stands before it', async () => {
  const seller = await originalSeller()
  const buyer = await buyerOf()
  const long = `${seller.peer.split('/p2p/')[1]}/${PAID}`
  const add = (agent_id: string) =>
    ask<Json>(buyer.url, '/imports', { body: { peer: seller.peer, agent_id, price: '0.05' } })
  const { id, imported } = await add(long)
  expect([imported, (await add(PAID)).id]).toEqual([{ agent_id: PAID }, id])
  expect(await ask(buyer.url, `/agents/${id}/execute`, { body: { task: 'a task' } })).toMatchObject({
    output: 'done: a task',
  })
})

test('D41 D45: what failed after the original node had settled it is paid in the books, as the chain shows', async () => {
  const seller = await originalSeller()
  const buyer = await buyerOf()
  const { id } = await ask<Json>(buyer.url, '/imports', { body: { peer: seller.peer, agent_id: PAID, price: '0.05' } })
  const failed = await call(buyer.url, `/agents/${id}/execute`, { body: { task: 'FAIL' } })
  expect(failed).toMatchObject({
    status: 502,
    body: { code: 'EXECUTION_FAILED', detail: expect.stringContaining('settles first'), order_id: expect.any(String) },
  })
  const [order] = await ask<Json[]>(buyer.url, '/orders')
  // Long before its window has ended: the chain is asked at once about a seller that settles first.
  await until(async () => (await bookOf(buyer.url, order!.id)) === 'paid')
  expect(await ask(buyer.url, `/orders/${order!.id}`)).toMatchObject({
    status: 'failed',
    payment: { settles_first: true, settlement: 'settled' },
  })
})

test('a free agent of the original node runs over the paid protocol', async () => {
  const seller = await originalSeller()
  const buyer = await buyerOf()
  const { id } = await ask<Json>(buyer.url, '/imports', { body: { peer: seller.peer, agent_id: FREE, price: 0 } })
  const result = await ask<Json>(buyer.url, `/agents/${id}/execute`, { body: { task: 'for nothing' } })
  expect(result).toMatchObject({ output: 'done: for nothing', payment: null })
})

test('an import is refused where its seller asks for something else, and forgotten when it is removed', async () => {
  const seller = await originalSeller()
  const buyer = await buyerOf()
  const add = (body: object) => call(buyer.url, '/imports', { body: { peer: seller.peer, agent_id: PAID, ...body } })
  expect(await add({ price: '0.04' })).toMatchObject({ status: 402, body: { code: 'LISTING_MISMATCH' } })
  for (const peer of ['nobody', 'QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N'])
    expect(await add({ peer, price: '0.05' })).toMatchObject({ status: 422, body: { code: 'IMPORT_REFUSED' } })
  // Asked for its price, this seller runs a free agent.
  expect(await add({ agent_id: FREE, price: '0.05' })).toMatchObject({
    status: 402,
    body: { code: 'LISTING_MISMATCH', detail: expect.stringContaining('a free agent has the price 0') },
  })
  const { id } = (await add({ price: '0.05' })).body as { id: string }
  expect(await ask<Json[]>(buyer.url, '/imports')).toHaveLength(1)
  await ask(buyer.url, `/imports/${id}`, { method: 'DELETE' })
  expect([await ask<Json[]>(buyer.url, '/imports'), (await call(buyer.url, `/agents/${id}`)).status]).toEqual([[], 404])
})
