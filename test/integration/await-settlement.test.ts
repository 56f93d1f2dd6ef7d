/** D46 between whole nodes: the result comes before its settlement. The real chain says who was paid. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { usdcEvents } from '../../devnet/chain.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import { OPERATOR } from '../../src/schema/caller.ts'
import type { OrderRecord } from '../../src/schema/order.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all } from '../../src/store/query.ts'
import { type Fault, type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { askLedger } from '../support/ledger-engine.ts'
import { localAddress } from '../support/loopback.ts'
import { discover, startTestNode, stopTestNodes, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
let devnet: Devnet
let slow: FaultyFacilitator

beforeAll(async () => {
  devnet = await startDevnet()
  slow = await startFaultyFacilitator(devnet.facilitatorUrl)
})
afterEach(async () => {
  slow.release()
  slow.ofPayer.clear()
  await killNodeProcesses()
  await stopTestNodes()
})
afterAll(async () => {
  await slow.stop()
  await devnet.stop()
})

type Account = { key: Hex; address: Hex }
const newAccount = (): Account => {
  const key = generatePrivateKey()
  return { key, address: privateKeyToAccount(key).address }
}
async function newPayer(): Promise<Account> {
  const payer = newAccount()
  await devnet.fund(payer.address, FUNDS)
  return payer
}
const chainSettings = () => ({ rpcUrl: devnet.rpcUrl, facilitatorUrl: slow.url })
const chainEnvironment = () => ({ ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: slow.url })
const repeat = { name: 'repeat', description: 'repeats', price: PRICE, model: 'builtin/echo' }
const signal = () => AbortSignal.timeout(60_000)
const patient = { everyMs: 50 }

/** Holds all settlements of this payer until `release`. */
function holdSettlements({ address }: Account, fault?: Fault) {
  const { promise: until, resolve: release } = Promise.withResolvers<void>()
  slow.ofPayer.set(address.toLowerCase(), () => fault ?? { kind: 'late', until })
  const asked = () =>
    slow.settles().filter(({ body }) => body.paymentPayload?.payload?.authorization?.from === address).length
  return { release, asked }
}

async function transfersTo(to: Hex): Promise<number> {
  return (await devnet.chain.client.getLogs({ event: usdcEvents.transfer, args: { to }, fromBlock: 0n })).length
}

describe('a facilitator that takes long', () => {
  async function pair(options: { dailyBudgetAtomic?: bigint } = {}) {
    const [owner, payer] = [newAccount(), await newPayer()]
    const seller = await startTestNode({ key: owner.key, ...chainSettings() })
    await seller.registerAgent(repeat)
    const settings = { ...chainSettings(), bootstrap: [localAddress(seller.addresses())], ...options }
    const buyer = await startTestNode({ key: payer.key, ...settings })
    const { id: agentId } = await discover(buyer, seller.peerId, 'repeat')
    return { seller, buyer, agentId, payer, payee: owner.address }
  }

  test('keeps no buyer waiting: order, event, receipt and books follow when it has settled', async () => {
    const { seller, buyer, agentId, payer, payee } = await pair({ dailyBudgetAtomic: PRICE })
    const { release, asked } = holdSettlements(payer)
    const result = await buyer.execute({ agentId, input: 'hello', signal: signal() })
    expect(result).toMatchObject({ output: 'hello', payment: { tx_hash: '', settlement: 'pending' } })
    const order = () => buyer.orders.get(result.order_id!)
    expect(await order()).toMatchObject({ status: 'completed', payment: { book: 'held', settlement: 'pending' } })
    const over = buyer.execute({ agentId, input: 'more', signal: signal() })
    await expect(over).rejects.toMatchObject({ code: 'OVER_BUDGET' })
    await until(() => asked() === 1)
    expect((await seller.status()).settlement).toEqual({ pending: 1, failed: 0 })
    expect(await devnet.chain.balanceOf(payee)).toBe(0n)

    const events = buyer.events.subscribe({ types: ['payment'] })
    release()
    await until(async () => (await order()).payment?.settlement === 'settled', patient)
    const { payment } = await order()
    const receipt = await devnet.chain.client.getTransactionReceipt({ hash: payment!.tx_hash as Hex })
    expect([receipt.status, payment?.book]).toEqual(['success', 'paid'])
    const { value } = await events.next()
    const { payment_id, tx_hash } = payment!
    const told = { direction: 'out', payment_id, tx_hash, state: 'settled' }
    expect(value?.type === 'payment' && (await value.read())).toMatchObject(told)
    const { items } = await buyer.receipts.list({ direction: 'out', limit: 10 }, OPERATOR)
    expect(items).toMatchObject([{ payment_id: payment!.payment_id, tx_hash: payment!.tx_hash }])
    await until(async () => (await seller.status()).settlement.pending === 0, patient)
    expect([await devnet.chain.balanceOf(payee), await transfersTo(payee), asked()]).toEqual([PRICE, 1, 1])
  })

  test('a caller that wants the transaction waits for it, and gets it', async () => {
    const { seller, buyer, agentId, payer } = await pair()
    const { release, asked } = holdSettlements(payer)
    let isAnswered = false
    const waited = buyer.execute({ agentId, input: 'one', awaitsSettlement: true, signal: signal() }).finally(() => {
      isAnswered = true
    })
    await until(() => asked() === 1)
    // Another call of the same buyer comes and goes meanwhile.
    const quick = await buyer.execute({ agentId, input: 'two', signal: signal() })
    expect([quick.output, quick.payment?.tx_hash, isAnswered]).toEqual(['two', '', false])
    expect((await seller.status()).settlement.pending).toBe(2)
    release()
    expect((await waited).payment).toMatchObject({
      settlement: 'settled',
      tx_hash: expect.stringMatching(/^0x/),
    })
  })

  test('a buyer whose configuration asks for the transaction waits', async () => {
    const { seller, buyer, agentId, payer } = await pair()
    await buyer.stop()
    const settings = { ...chainSettings(), bootstrap: [localAddress(seller.addresses())], awaitSettlement: true }
    const careful = await startTestNode({ key: payer.key, ...settings })
    await discover(careful, seller.peerId, 'repeat')
    const { payment } = await careful.execute({ agentId, input: 'hello', signal: signal() })
    expect(payment).toMatchObject({ settlement: 'settled', tx_hash: expect.stringMatching(/^0x/) })
  })
})

describe('T16 killed between answer and settlement', () => {
  test('the seller: it settles once after the restart, and its buyer learns of it', async () => {
    const [owner, payer] = [newAccount(), await newPayer()]
    const buyer = await startTestNode({ key: payer.key, ...chainSettings() })
    const dir = await testDir()
    await writeFile(
      join(dir, 'agents.yaml'),
      'agents:\n  - name: repeat\n    description: repeats\n    price: 0.01\n    model: builtin/echo\n',
    )
    const args = ['--data-dir', dir, '--bootstrap', localAddress(buyer.addresses())]
    const environment = { ...chainEnvironment(), SELLER_PRIVATE_KEY: owner.key }
    const first = await startNodeProcess({ args, environment })
    const { id: agentId } = await discover(buyer, first.ready.peer_id, 'repeat')
    const { release, asked } = holdSettlements(payer, { kind: 'hold' })
    const result = await buyer.execute({ agentId, input: 'hello', signal: signal() })
    expect(result).toMatchObject({ output: 'hello', payment: { tx_hash: '', settlement: 'pending' } })
    await until(() => asked() === 1)
    first.child.kill('SIGKILL')
    await first.exited
    expect(await devnet.chain.balanceOf(owner.address)).toBe(0n)
    release()
    slow.ofPayer.clear()

    const second = await startNodeProcess({ args, environment })
    await until(async () => (await buyer.orders.get(result.order_id!)).payment?.settlement === 'settled', patient)
    const settlement = async () => ((await get(second, '/status')) as { settlement: object }).settlement
    await until(async () => JSON.stringify(await settlement()) === '{"pending":0,"failed":0}', patient)
    await second.stop()
    const states = await askLedger(dir, all<{ state: string }>('SELECT state FROM payments'))
    expect(states.map(({ state }) => state)).toEqual(['settled'])
    expect([await devnet.chain.balanceOf(owner.address), await transfersTo(owner.address)]).toEqual([PRICE, 1])
    expect(await devnet.chain.balanceOf(payer.address)).toBe(FUNDS - PRICE)
  })

  test('the buyer: it has its result, and learns the transaction after the restart', async () => {
    const [owner, payer] = [newAccount(), await newPayer()]
    const seller = await startTestNode({ key: owner.key, ...chainSettings() })
    await seller.registerAgent(repeat)
    const args = ['--data-dir', await testDir(), '--bootstrap', localAddress(seller.addresses())]
    const environment = { ...chainEnvironment(), BUYER_PRIVATE_KEY: payer.key }
    const first = await startNodeProcess({ args, environment })
    const agents = async () => (await get(first, '/agents')) as { id: string; name: string }[]
    const { id } = await until(async () => (await agents()).find(({ name }) => name === 'repeat'), patient)
    const { release, asked } = holdSettlements(payer)
    const result = (await post(first, `/agents/${id}/execute`, { task: 'hello' })) as ExecutionResult
    expect(result).toMatchObject({ output: 'hello', payment: { tx_hash: '', settlement: 'pending' } })
    await until(() => asked() === 1)
    first.child.kill('SIGKILL')
    await first.exited
    release()

    const second = await startNodeProcess({ args, environment })
    const order = async () => (await get(second, `/orders/${result.order_id}`)) as OrderRecord
    await until(async () => (await order()).payment?.settlement === 'settled', patient)
    expect(await order()).toMatchObject({ status: 'completed', output: 'hello', payment: { book: 'paid' } })
    expect(await get(second, '/orders')).toHaveLength(1)
    expect([await devnet.chain.balanceOf(owner.address), await transfersTo(owner.address)]).toEqual([PRICE, 1])
  })
})

async function get({ ready }: NodeProcess, path: string): Promise<unknown> {
  return (await fetch(`${ready.api_url}${path}`)).json()
}

async function post({ ready }: NodeProcess, path: string, body: object): Promise<unknown> {
  const headers = { 'content-type': 'application/json' }
  return (await fetch(`${ready.api_url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })).json()
}
