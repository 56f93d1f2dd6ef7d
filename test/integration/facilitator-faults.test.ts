import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { usdcEvents } from '../../devnet/chain.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { createChain } from '../../src/chain/chain.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createFacilitator, type Facilitator } from '../../src/payments/facilitator.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import type { StoredPayment } from '../../src/store/payments.ts'
import { type Fault, type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { HandClock } from '../support/hand-clock.ts'
import { agentId, claim, payTo, randomHex, usdc } from '../support/payments.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { until } from '../support/until.ts'
import { TestSeller, type TestSellerOptions } from '../support/x402-seller.ts'

/*
 * What a facilitator can do to a seller, with the real HTTP client, the real facilitator behind a server that fails as it is told,
 * and the real chain. Each payment must end where it should, after at most 5 attempts; the buyer has its result in any case; and
 * the balances on chain say who was paid.
 *
 * Time is turned by hand: nobody waits for a back-off.
 */

const PRICE = 10_000n
const ATTEMPT_TIMEOUT_MS = 1_500
let devnet: Devnet
let faulty: FaultyFacilitator
let facilitator: Facilitator
const running: { seller: TestSeller; buyer: TestBuyer }[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  faulty = await startFaultyFacilitator(devnet.facilitatorUrl)
  facilitator = createFacilitator({ url: faulty.url })
})
afterAll(async () => {
  await facilitator.close()
  await faulty.stop()
  await devnet.stop()
})
afterEach(async () => {
  faulty.faults.length = 0
  await Promise.all(running.splice(0).map(({ seller }) => seller.stop()))
})

type Market = {
  seller: TestSeller
  buyer: TestBuyer
  clock: HandClock
  wallet: Wallet
  payee: Hex
  moved(): Promise<bigint>
}

/** A seller and a buyer that has 1 USDC; nobody else pays or is paid by these accounts. */
async function market(options: TestSellerOptions = {}): Promise<Market> {
  const key = randomHex()
  const [wallet, payee] = [createWallet(key, usdc), createWallet(randomHex(), usdc).address]
  await devnet.fund(wallet.address, 1_000_000n)
  const clock = new HandClock(systemClock.now())
  const chain = createChain(
    { network: usdc.network, asset: usdc.address, rpcUrl: devnet.rpcUrl, timeoutMs: 30_000 },
    { logger: silentLogger },
  )
  const seller = await new TestSeller({
    clock,
    facilitator,
    // Its blocks follow the hand clock: what has expired is told by chain time.
    chain: {
      ...chain,
      authorizationAt: async (...asked) => ({ ...(await chain.authorizationAt(...asked)), timeMs: clock.now() }),
    },
    payTo: payee,
    attemptTimeoutMs: ATTEMPT_TIMEOUT_MS,
    ...options,
  }).start()
  const buyer = new TestBuyer({ clock, wallet, open: (_peer, protocol) => seller.open('buyer', protocol) })
  buyer.list({ pay_to: payee })
  running.push({ seller, buyer })
  const moved = async () => {
    const [paid, left] = await Promise.all([devnet.chain.balanceOf(payee), devnet.chain.balanceOf(wallet.address)])
    expect(paid + left).toBe(1_000_000n)
    return paid
  }
  return { seller, buyer, clock, wallet, payee, moved }
}

/** Buys one run with these faults ahead, and lets the hand clock go on until the payment has come to its end. */
async function buyWith(
  faults: Fault[],
  { seller, buyer, clock }: Market,
): Promise<StoredPayment & { attemptsSeen: number }> {
  const before = faulty.settles().length
  faulty.faults.push(...faults)
  const result = await buyer.execute({ input: 'hello', awaitsSettlement: true })
  expect(result.output).toBe('re: hello')
  const id = (await buyer.ledger())[0]!.reservation!.paymentId
  const end = await until(
    async () => {
      const payment = (await seller.payments.get(id))!
      if (payment.state !== 'owed') return payment
      // An attempt that is under way has its own, real time.
      const isUnderWay = payment.error === undefined && payment.txHash === undefined
      if (!isUnderWay && (payment.nextAttemptAt ?? 0) > clock.now()) clock.set(payment.nextAttemptAt!)
      return undefined
    },
    { timeoutMs: 60_000 },
  )
  expect(end.attempts).toBeLessThanOrEqual(5)
  return { ...end, attemptsSeen: faulty.settles().length - before }
}

/** The transaction that moved the money, as the chain has it. */
async function transactionOf({ signed }: StoredPayment): Promise<Hex | undefined> {
  const { from, nonce } = signed.authorization
  const logs = await devnet.chain.client.getLogs({
    address: usdc.address,
    event: usdcEvents.authorizationUsed,
    args: { authorizer: from as Hex, nonce: nonce as Hex },
    fromBlock: 0n,
  })
  return logs[0]?.transactionHash
}

test('without faults the payment settles at the first attempt, and the buyer is told the transaction', async () => {
  const parts = await market()
  const end = await buyWith([], parts)
  expect(end).toMatchObject({ state: 'settled', attempts: 1, attemptsSeen: 1, txHash: await transactionOf(end) })
  expect((await parts.buyer.ledger())[0]?.reservation?.txHash).toBe(end.txHash)
  expect(await parts.moved()).toBe(PRICE)
})

describe('a facilitator that fails once and did not settle is asked again, and the second attempt pays', () => {
  const faults: [string, Fault][] = [
    ['answers garbage', { kind: 'garbage' }],
    ['answers nothing', { kind: 'empty' }],
    ['answers with every field of another type', { kind: 'wrong-types' }],
    ['answers settlement_pending', { kind: 'pending' }],
    ['refuses for a reason that may pass', { kind: 'refuse', reason: 'invalid_exact_evm_transaction_failed' }],
    ['says success without a hash', { kind: 'empty-hash' }],
    ['says success with the hash of no transaction (T13)', { kind: 'other-hash', transaction: `0x${'ee'.repeat(32)}` }],
    ['drops the connection', { kind: 'drop' }],
    ['times out', { kind: 'hold' }],
    ['answers without end', { kind: 'endless' }],
  ]
  test.each(faults)('%s', async (_what, fault) => {
    const parts = await market()
    const end = await buyWith([fault], parts)
    expect(end).toMatchObject({ state: 'settled', attempts: 2, attemptsSeen: 2, txHash: await transactionOf(end) })
    expect(await parts.moved()).toBe(PRICE)
  })
})

describe('D40: a facilitator that says it is down is asked again, and that was no attempt', () => {
  const faults: [string, Fault][] = [
    ['answers 500', { kind: 'status', status: 500, body: { error: 'down' } }],
    ['answers 503 without a body', { kind: 'status', status: 503 }],
    ['answers 429', { kind: 'status', status: 429, body: 'slow down' }],
    ['finds the signature wrong, as its RPC is away', { kind: 'refuse', reason: 'invalid_exact_evm_signature' }],
  ]
  test.each(faults)('%s', async (_what, fault) => {
    const parts = await market()
    const end = await buyWith([fault, fault], parts)
    expect(end).toMatchObject({ state: 'settled', attempts: 1, attemptsSeen: 3, txHash: await transactionOf(end) })
    expect(await parts.moved()).toBe(PRICE)
  })
})

describe('T13: a facilitator that fails and has settled all the same is not asked again: the chain has shown it', () => {
  const faults: [string, Fault][] = [
    ['answers 500', { kind: 'status', status: 500, body: { error: 'down' }, settles: true }],
    ['answers garbage', { kind: 'garbage', settles: true }],
    ['answers half of the truth', { kind: 'truncated', settles: true }],
    ['answers settlement_pending', { kind: 'pending', settles: true }],
    ['says success without a hash', { kind: 'empty-hash', settles: true }],
    [
      'says success with the hash of another transaction',
      { kind: 'other-hash', transaction: `0x${'ee'.repeat(32)}`, settles: true },
    ],
    ['drops the connection', { kind: 'drop', settles: true }],
    ['times out', { kind: 'hold', settles: true }],
    [
      'says that there is no money, now that there is less',
      { kind: 'refuse', reason: 'insufficient_funds', settles: true },
    ],
    [
      'says that the nonce is used, which it is',
      { kind: 'refuse', reason: 'invalid_exact_evm_nonce_already_used', settles: true },
    ],
  ]
  test.each(faults)('%s', async (_what, fault) => {
    const parts = await market()
    const end = await buyWith([fault], parts)
    expect(end).toMatchObject({ state: 'settled', attempts: 1, attemptsSeen: 1, txHash: await transactionOf(end) })
    expect(await parts.moved()).toBe(PRICE)
  })
})

test('T13: the hash of somebody else’s real transfer is not taken for this payment', async () => {
  const parts = await market()
  const transaction = await devnet.chain.mint(parts.payee, 0n)
  const end = await buyWith([{ kind: 'other-hash', transaction }], parts)
  expect(end).toMatchObject({ state: 'settled', attempts: 2, txHash: await transactionOf(end) })
  expect(end.txHash).not.toBe(transaction)
})

describe('a facilitator that fails every time', () => {
  test('is asked five times; the payment ends unsettled, nobody is charged, and the buyer keeps its result', async () => {
    const parts = await market()
    const end = await buyWith(Array<Fault>(8).fill({ kind: 'garbage' }), parts)
    expect(end).toMatchObject({
      state: 'unsettled',
      attempts: 5,
      attemptsSeen: 5,
      error: expect.stringContaining('expired unpaid'),
    })
    expect(await parts.moved()).toBe(0n)
  })

  test('and settles at the fifth attempt, whatever it says, is paid', async () => {
    const parts = await market()
    const fails: Fault = { kind: 'drop' }
    const end = await buyWith([fails, fails, fails, fails, { kind: 'garbage', settles: true }], parts)
    expect(end).toMatchObject({ state: 'settled', attempts: 5, attemptsSeen: 5, txHash: await transactionOf(end) })
    expect(await parts.moved()).toBe(PRICE)
  })

  test('in another way each time is asked five times as well', async () => {
    const parts = await market()
    const ways: Fault[] = [
      { kind: 'garbage' },
      { kind: 'pending' },
      { kind: 'empty-hash' },
      { kind: 'drop' },
      { kind: 'empty' },
      { kind: 'garbage' },
    ]
    const end = await buyWith(ways, parts)
    expect(end).toMatchObject({ state: 'unsettled', attempts: 5, attemptsSeen: 5 })
    expect(await parts.moved()).toBe(0n)
  })
})

test('a facilitator at whose address nothing listens was not reached, whatever else goes wrong is an attempt', async () => {
  const settleAt = async (url: string) => {
    const one = createFacilitator({ url })
    const { signed, requirements } = claim(systemClock.now())
    const { kind } = await one.settle(signed, requirements, AbortSignal.timeout(5_000))
    await one.close()
    return kind
  }
  expect(await settleAt('http://127.0.0.1:1')).toBe('unreached')
  faulty.faults.push({ kind: 'drop' }, { kind: 'status', status: 502 })
  expect([await settleAt(faulty.url), await settleAt(faulty.url)]).toEqual(['unclear', 'down'])
})

test('a facilitator that refuses for good is believed at once, and nobody is charged', async () => {
  const parts = await market()
  const end = await buyWith([{ kind: 'refuse', reason: 'invalid_exact_evm_recipient_mismatch' }], parts)
  expect(end).toMatchObject({
    state: 'unsettled',
    attempts: 1,
    attemptsSeen: 1,
    error: expect.stringContaining('invalid_exact_evm_recipient_mismatch'),
  })
  expect(await parts.moved()).toBe(0n)
})

describe('T6: a buyer of bad will', () => {
  test('that has emptied its wallet is refused by the real facilitator, for good', async () => {
    const parts = await market()
    // Anvil gives the balance away, as the buyer could.
    const { wallet, seller, buyer, payee } = parts
    const work = seller.agents.get(agentId)!.run
    seller.addAgent({
      run: async (call) => {
        await drain(wallet.address)
        return work(call)
      },
    })
    await buyer.execute()
    const id = (await buyer.ledger())[0]!.reservation!.paymentId
    await until(async () => (await seller.payments.get(id))?.state === 'unsettled')
    expect((await seller.payments.get(id))?.error).toMatch(/insufficient/)
    expect(await devnet.chain.balanceOf(payee)).toBe(0n)
  })

  async function drain(address: Hex): Promise<void> {
    const { client } = devnet.chain
    await client.impersonateAccount({ address })
    const data = `0xa9059cbb${payTo.slice(2).padStart(64, '0')}${1_000_000n.toString(16).padStart(64, '0')}` as Hex
    const hash = await client.sendTransaction({ account: address, to: usdc.address, data })
    await client.waitForTransactionReceipt({ hash })
  }
})

test('--settle-first: while the facilitator is down nothing runs; when it is back the result is there to be asked for', async () => {
  const parts = await market({ settleFirst: true })
  const { seller, buyer, clock } = parts
  faulty.faults.push(...Array<Fault>(2).fill({ kind: 'status', status: 503 }))
  const buying = buyer.execute({ input: 'hello' })
  await until(() => faulty.faults.length === 1)
  expect(seller.runs).toEqual([])
  const id = await until(async () => (await buyer.ledger())[0]?.reservation?.paymentId)
  await until(async () => (await seller.payments.get(id))?.error)
  expect([seller.runs.length, await parts.moved()]).toEqual([0, 0n])
  await until(
    async () => {
      clock.advance(1_000)
      return (await seller.payments.get(id))?.state === 'settled'
    },
    { everyMs: 50 },
  )
  expect((await buying).output).toBe('re: hello')
  expect([seller.runs.length, await parts.moved()]).toEqual([1, PRICE])
})
