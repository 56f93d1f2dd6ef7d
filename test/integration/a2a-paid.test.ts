/** Paid agents over A2A: the x402 extension, with money on a real chain. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Task } from '@a2a-js/sdk'
import { ServiceParameters } from '@a2a-js/sdk/client'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { contentHash, receiptSigner } from '../../src/payments/receipt.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import { X402_EXTENSION } from '../../src/schema/a2a.ts'
import { PaymentRequirements, SignedAuthorization } from '../../src/schema/payment.ts'
import { SignedReceipt } from '../../src/schema/receipt.ts'
import { a2aClient, asTask, type Binding, bindings, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { randomHex, usdc } from '../support/payments.ts'
import { startTestNode, type TestNode, type TestNodeOptions } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 20_000n
let devnet: Devnet
let seller: TestNode
let home: string
let echoId: string

const options = (): TestNodeOptions => ({
  devnet,
  walletKey: devnet.wallets.seller.privateKey,
  dataDir: join(home, 'seller'),
})
const sleeper = [process.execPath, '-e', 'setTimeout(() => console.log("late"), 60_000)']

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-a2a-'))
  devnet = await startDevnet()
  seller = await startTestNode(options())
  echoId = await register(seller, 'echo')
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

async function register(node: TestNode, name: string, command?: string[]): Promise<string> {
  const what = command === undefined ? { model: 'builtin/echo' } : { command }
  const definition = { name, description: `A paid agent: ${name}.`, price: PRICE, ...what }
  return (await node.node.registerAgent(definition, { persist: false })).id
}

/** The extension is asked for with each call, as the specification has it. */
async function client(id = echoId, binding: Binding = bindings[0]!, node = seller) {
  const inner = await a2aClient(`${node.url}/a2a/${id}`, binding)
  const serviceParameters = ServiceParameters.create((parameters) => {
    parameters['A2A-Extensions'] = X402_EXTENSION
  })
  return {
    send: async (text: string, changes: Parameters<typeof send>[1] = {}) =>
      asTask(await inner.sendMessage(send(text, changes), { serviceParameters })),
    start: async (text: string, changes: Parameters<typeof send>[1] = {}) => {
      const configuration = { returnImmediately: true, acceptedOutputModes: [], taskPushNotificationConfig: undefined }
      return asTask(await inner.sendMessage({ ...send(text, changes), configuration }, { serviceParameters }))
    },
    stream: (text: string, changes: Parameters<typeof send>[1] = {}) =>
      Array.fromAsync(inner.sendMessageStream(send(text, changes), { serviceParameters })),
    get: (id: string) => inner.getTask({ tenant: '', id }),
    cancel: (id: string) => inner.cancelTask({ tenant: '', id, metadata: undefined }),
  }
}

const metadataOf = (task: Task) => task.status?.message?.metadata ?? {}
const statusOf = (task: Task) => metadataOf(task)['x402.payment.status']
const requiredOf = (task: Task) => metadataOf(task)['x402.payment.required'] as PaymentRequired
const wallet = () => createWallet(devnet.wallets.buyer.privateKey, usdc)
const money = () =>
  Promise.all([devnet.wallets.buyer, devnet.wallets.seller].map(({ address }) => devnet.chain.balanceOf(address)))

type Change = (requirements: PaymentRequirements) => Partial<PaymentRequirements>
/** A payment by our own wallet for what a task asks, or for something else. */
function sign(task: Task, change: Change = () => ({}), { now = Date.now(), nonce = randomHex() } = {}) {
  const accepted = PaymentRequirements.parse(requiredOf(task).accepts[0])
  const terms = { ...accepted, ...change(accepted) }
  const nonces = { serverNonce: 'preemptive' as const, authorizationNonce: nonce }
  const { envelope } = wallet().authorize(terms, nonces, now)
  return {
    x402Version: 2,
    accepted: PaymentRequirements.encode(accepted),
    payload: SignedAuthorization.encode(envelope.payload!),
  }
}
const submission = (taskId: string, payload: unknown) => ({
  taskId,
  metadata: { 'x402.payment.status': 'payment-submitted', 'x402.payment.payload': payload },
})

describe.each(bindings)('A2A $version over $binding', (binding) => {
  test('a paid agent asks, is paid by the x402 client of others, and settles on chain', async () => {
    const buyer = await client(echoId, binding)
    const asked = await buyer.send('hello')
    expect([stateOf(asked), statusOf(asked)]).toEqual(['INPUT_REQUIRED', 'payment-required'])
    expect(requiredOf(asked)).toMatchObject({
      x402Version: 2,
      resource: { url: `${seller.url}/a2a/${echoId}` },
      accepts: [{ scheme: 'exact', network: 'eip155:84532', amount: '20000', payTo: devnet.wallets.seller.address }],
    })
    const signer = new ExactEvmScheme(privateKeyToAccount(devnet.wallets.buyer.privateKey))
    const payload = await new x402Client().register('eip155:84532', signer).createPaymentPayload(requiredOf(asked))
    const before = await money()
    const done = await buyer.send('here is the payment', submission(asked.id, payload))
    expect([stateOf(done), statusOf(done), resultOf(done)]).toEqual(['COMPLETED', 'payment-completed', 'hello'])
    const receipts = metadataOf(done)['x402.payment.receipts']
    expect(receipts).toEqual([
      {
        success: true,
        transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
        network: 'eip155:84532',
        payer: devnet.wallets.buyer.address,
      },
    ])
    const signed = SignedReceipt.parse(metadataOf(done)['stoa.receipt'])
    expect(signed.payload).toMatchObject({ taskHash: contentHash('hello'), resultHash: contentHash('hello') })
    expect(receiptSigner(signed)).toBe(devnet.wallets.seller.address)
    const after = await money()
    expect([before[0]! - after[0]!, after[1]! - before[1]!]).toEqual([PRICE, PRICE])
    expect(metadataOf(await buyer.get(asked.id))['x402.payment.receipts']).toEqual(receipts)
  })
})

test('a payment sent with the task itself is taken at once', async () => {
  const buyer = await client()
  const payload = sign(await buyer.send('to know the price'))
  const { taskId: _, metadata } = submission('', payload)
  const done = await buyer.send('no question asked', { metadata })
  expect([stateOf(done), resultOf(done)]).toEqual(['COMPLETED', 'no question asked'])
})

test('a stream tells that the payment was accepted before the agent ran', async () => {
  const buyer = await client()
  const asked = await buyer.send('streamed')
  const events = await buyer.stream('', submission(asked.id, sign(asked)))
  const said = events.map(({ payload }) =>
    payload?.$case === 'statusUpdate'
      ? payload.value.status?.message?.metadata?.['x402.payment.status']
      : payload?.$case,
  )
  expect(said).toEqual(['task', 'payment-verified', 'artifactUpdate', 'payment-completed'])
})

test('the card of a paid agent demands the extension, and a client without it gets an error that says so', async () => {
  const card = await (await fetch(`${seller.url}/a2a/${echoId}/.well-known/agent-card.json`)).json()
  expect(card).toMatchObject({
    capabilities: { extensions: [{ uri: X402_EXTENSION, required: true }, { uri: 'urn:stoa:a2a:agent:v1' }] },
  })
  const plain = await a2aClient(`${seller.url}/a2a/${echoId}`)
  await expect(plain.sendMessage(send('hello'))).rejects.toThrow(/extension/i)
})

const aMinute = 60_000
test.each<[string, string, Change, { now?: number }?]>([
  ['another amount', 'INVALID_AMOUNT', ({ amount }) => ({ amount: amount - 1n })],
  ['more than the amount', 'INVALID_AMOUNT', ({ amount }) => ({ amount: amount + 1n })],
  ['to another account', 'INVALID_SIGNATURE', () => ({ payTo: randomHex(20) })],
  ['that has expired', 'EXPIRED_PAYMENT', () => ({ maxTimeoutSeconds: 30 }), { now: Date.now() - 10 * aMinute }],
  ['that is not valid yet', 'INVALID_SIGNATURE', () => ({}), { now: Date.now() + 20 * aMinute }],
])('T4 D27 a payment %s is refused as %s: nothing runs, nothing moves', async (_, code, change, at = {}) => {
  const buyer = await client()
  const asked = await buyer.send('hello')
  const before = await money()
  const refused = await buyer.send('', submission(asked.id, sign(asked, change, at)))
  expect([stateOf(refused), statusOf(refused)]).toEqual(['FAILED', 'payment-failed'])
  expect(metadataOf(refused)).toMatchObject({
    'x402.payment.error': code,
    'x402.payment.receipts': [{ success: false, errorReason: expect.any(String), transaction: '' }],
  })
  expect(refused.artifacts).toEqual([])
  expect(await money()).toEqual(before)
})

test('T4 a forged signature, another network and rubbish are refused, and the same authorization still pays', async () => {
  const buyer = await client()
  const asked = await buyer.send('hello')
  const good = sign(asked)
  const forged = { ...good, payload: { ...good.payload, signature: `0x${'11'.repeat(65)}` } }
  const elsewhere = { ...good, accepted: { ...good.accepted, network: 'eip155:8453' } }
  const cases: [unknown, string][] = [
    [forged, 'INVALID_SIGNATURE'],
    [elsewhere, 'NETWORK_MISMATCH'],
    [{ x402Version: 1 }, 'INVALID_SIGNATURE'],
    [null, 'INVALID_SIGNATURE'],
    ['0x', 'INVALID_SIGNATURE'],
    [
      {
        ...good,
        payload: { ...good.payload, authorization: { ...good.payload.authorization, value: `${2n ** 256n}` } },
      },
      'INVALID_SIGNATURE',
    ],
  ]
  for (const [payload, code] of cases) {
    const fresh = await buyer.send('hello')
    const refused = await buyer.send('', submission(fresh.id, payload))
    expect([stateOf(refused), metadataOf(refused)['x402.payment.error']]).toEqual(['FAILED', code])
  }
  expect(stateOf(await buyer.send('', submission(asked.id, good)))).toBe('COMPLETED')
})

test('T5 one authorization buys one run: on three tasks at once, and again later', async () => {
  const buyer = await client()
  const tasks = await Promise.all(['one', 'two', 'three'].map((text) => buyer.send(text)))
  const payload = sign(tasks[0]!)
  const before = await money()
  const done = await Promise.all(tasks.map(({ id }) => buyer.send('', submission(id, payload))))
  expect(done.map(stateOf).toSorted()).toEqual(['COMPLETED', 'FAILED', 'FAILED'])
  for (const task of done.filter((one) => stateOf(one) === 'FAILED')) {
    expect(metadataOf(task)['x402.payment.error']).toBe('DUPLICATE_NONCE')
  }
  const again = await buyer.send('', submission((await buyer.send('four')).id, payload))
  expect(metadataOf(again)['x402.payment.error']).toBe('DUPLICATE_NONCE')
  expect((await money())[0]).toBe(before[0]! - PRICE)
})

test('a payer who declines ends the task unpaid', async () => {
  const buyer = await client()
  const { id } = await buyer.send('hello')
  const declined = await buyer.send('no', { taskId: id, metadata: { 'x402.payment.status': 'payment-rejected' } })
  expect([stateOf(declined), statusOf(declined)]).toEqual(['FAILED', 'payment-rejected'])
})

test('a task that waits for payment asks again, for its first message, whatever the client sends', async () => {
  const buyer = await client()
  const asked = await buyer.send('the task itself')
  const again = await buyer.send('something else', { taskId: asked.id })
  expect([stateOf(again), statusOf(again)]).toEqual(['INPUT_REQUIRED', 'payment-required'])
  await expect(buyer.send('x'.repeat(100_000), { taskId: asked.id })).rejects.toThrow(/longer/)
  const done = await buyer.send('and now paid', submission(asked.id, sign(again)))
  expect(resultOf(done)).toBe('the task itself')
})

test('a canceled run is void: the agent stops and nobody is charged', async () => {
  const slowId = await register(seller, 'slow', sleeper)
  const buyer = await client(slowId)
  const asked = await buyer.send('take your time')
  const before = await money()
  const payload = sign(asked)
  await buyer.start('', submission(asked.id, payload))
  await until(async () => stateOf(await buyer.get(asked.id)) === 'WORKING')
  const canceled = await buyer.cancel(asked.id)
  expect([stateOf(canceled), statusOf(canceled)]).toEqual(['CANCELED', 'payment-failed'])
  expect(await money()).toEqual(before)
  // The authorization was claimed: what is void stays void.
  const again = await buyer.send('', submission((await buyer.send('again')).id, payload))
  expect(metadataOf(again)['x402.payment.error']).toBe('DUPLICATE_NONCE')
})

test('an agent that fails is not paid for', async () => {
  const brokenId = await register(seller, 'broken', [process.execPath, '-e', 'process.exit(3)'])
  const buyer = await client(brokenId)
  const asked = await buyer.send('fail')
  const before = await money()
  const failed = await buyer.send('', submission(asked.id, sign(asked)))
  expect([stateOf(failed), metadataOf(failed)['x402.payment.error']]).toEqual(['FAILED', 'EXECUTION_FAILED'])
  expect(failed.status?.message?.parts[0]).toMatchObject({
    content: { value: expect.stringContaining('nothing is charged') },
  })
  expect(await money()).toEqual(before)
})

test('D32 a paid result is there after a restart, by the id of its task and for that agent only', async () => {
  const buyer = await client()
  const asked = await buyer.send('keep this')
  const done = await buyer.send('', submission(asked.id, sign(asked)))
  const receipts = metadataOf(done)['x402.payment.receipts']
  const signed = metadataOf(done)['stoa.receipt']
  expect(signed).toBeDefined()
  await seller.stop()
  seller = await startTestNode(options())
  await register(seller, 'echo')
  const otherId = await register(seller, 'other')
  const kept = await (await client()).get(asked.id)
  expect([stateOf(kept), resultOf(kept), statusOf(kept)]).toEqual(['COMPLETED', 'keep this', 'payment-completed'])
  expect(metadataOf(kept)['x402.payment.receipts']).toEqual(receipts)
  expect(metadataOf(kept)['stoa.receipt']).toEqual(signed)
  expect(kept.contextId).toBe(done.contextId)
  await expect((await client(otherId)).get(asked.id)).rejects.toThrow(/not found/i)
  await expect((await client()).send('more', { taskId: asked.id })).rejects.toThrow(/terminal/)
})

test('--settle-first: the money moves before the agent runs, and the task ends the same', async () => {
  const first = await startTestNode({
    devnet,
    walletKey: devnet.wallets.seller.privateKey,
    seller: { settleFirst: true },
  })
  try {
    const id = await register(first, 'echo')
    const buyer = await client(id, bindings[0]!, first)
    const asked = await buyer.send('in advance')
    const done = await buyer.send('', submission(asked.id, sign(asked)))
    expect([stateOf(done), statusOf(done), resultOf(done)]).toEqual(['COMPLETED', 'payment-completed', 'in advance'])
  } finally {
    await first.stop()
  }
})

test('stopping the node voids what still runs', async () => {
  const brief = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey })
  const slowId = await register(brief, 'slow', sleeper)
  const buyer = await client(slowId, bindings[0]!, brief)
  const asked = await buyer.send('take your time')
  const before = await money()
  await buyer.start('', submission(asked.id, sign(asked)))
  await until(async () => stateOf(await buyer.get(asked.id)) === 'WORKING')
  const began = performance.now()
  await brief.stop()
  expect(performance.now() - began).toBeLessThan(30_000)
  expect(await money()).toEqual(before)
})
