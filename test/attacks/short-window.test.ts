import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { authorizationDigest, signDigest } from '../../src/payments/authorization.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { PaymentEnvelope } from '../../src/schema/payment.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { type ChainMarket, startChainMarket } from '../support/chain-market.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { randomHex, requirements, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, type TestSeller, told } from '../support/x402-seller.ts'

/*
 * D51: a payment that expires while the agent works, or while it waits for its turn, brings nothing once the work is done. The seller
 * judges before it works: what its window does not cover is settled first, or not begun.
 */

const PRICE = 10_000n
let market: ChainMarket
beforeAll(async () => {
  market = await startChainMarket()
})
afterAll(() => market.stop())

/** A payment that is valid for so many seconds from now. */
async function shortPayment(seller: TestSeller & { payee: Hex }, seconds: number) {
  const key = Buffer.from(randomHex().slice(2), 'hex')
  const wallet = createWallet(`0x${key.toString('hex')}`, usdc)
  await market.devnet.fund(wallet.address, 1_000_000n)
  // The chain has the time of the machine, whatever the test has taken until now.
  seller.clock.set(Math.max(seller.clock.now(), systemClock.now()))
  const now = Math.floor(seller.clock.now() / 1000)
  const authorization = {
    from: wallet.address,
    to: seller.payee,
    value: PRICE,
    validAfter: BigInt(now - 60),
    validBefore: BigInt(now + seconds),
    nonce: randomHex(),
  }
  const signature = signDigest(authorizationDigest(usdc, authorization), key)
  const asked = requirements({ payTo: seller.payee })
  const payment: PaymentEnvelope = {
    x402_version: 2,
    scheme: asked.scheme,
    network: asked.network,
    server_nonce: 'preemptive',
    payer: wallet.address,
    payload: { signature, authorization },
  }
  return payment
}

test('D51 T22 T27: a window that ends before the agent does is settled first: no result for nothing', async () => {
  const seller = await market.seller()
  // An agent of 20 s, for whoever signs for 12.
  const paidBefore: bigint[] = []
  const run = async ({ input }: { input: string }) => {
    paidBefore.push(await market.devnet.chain.balanceOf(seller.payee))
    return `re: ${input}`
  }
  seller.addAgent({ timeoutMs: 20_000, run })
  for (let time = 1; time <= 2; time++) {
    const peer = await seller.connect('attacker')
    const answer = await peer.request({ payment: await shortPayment(seller, 12), body: base64('hello') })
    expect(told(answer)).toBe('re: hello')
    expect(paidBefore).toHaveLength(time)
  }
  expect(paidBefore).toEqual([PRICE, 2n * PRICE])
  const honest = market.buyer(seller, await market.payer())
  expect((await honest.execute({ input: 'good day' })).output).toBe('re: good day')
})

test('D51: a run whose window gets too short while it waits is settled before it begins', async () => {
  const seller = await market.seller({ slots: { concurrentMax: 1, waitingMax: 4 } })
  const { promise: work, resolve: end } = Promise.withResolvers<string>()
  const paidBefore: bigint[] = []
  const run = async () => {
    paidBefore.push(await market.devnet.chain.balanceOf(seller.payee))
    return paidBefore.length === 1 ? work : 'late'
  }
  seller.addAgent({ timeoutMs: 20_000, run })
  const [first, second] = [await seller.connect('first'), await seller.connect('attacker')]
  const body = base64('hello')
  const running = first.request({ payment: await shortPayment(seller, 120), body })
  await until(() => paidBefore.length === 1)
  const waiting = second.request({ payment: await shortPayment(seller, 60), body })
  await until(() => seller.exposure.total === 2n * PRICE)
  seller.clock.advance(20_000)
  end('done')
  expect(told(await running)).toBe('done')
  expect(told(await waiting)).toBe('late')
  expect([paidBefore[0], paidBefore[1]! >= PRICE]).toEqual([0n, true])
  expect(await market.devnet.chain.balanceOf(seller.payee)).toBe(2n * PRICE)
})

test('D51: a series of short windows leaves an honest buyer’s calls as quick as before', {
  retry: 2,
}, async () => {
  const seller = await market.seller()
  seller.addAgent({ timeoutMs: 20_000 })
  const honest = market.buyer(seller, await market.payer(100_000_000n))
  const peer = await seller.connect('attacker')
  const attack = async () => {
    for (let count = 0; count < 4; count++) {
      const payment = await shortPayment(seller, 12)
      const answer = await peer.request({ payment, body: base64('hello') })
      // On a loaded machine the window is too short to begin, or ends before the settlement is known.
      expect(['re: hello', 'PAYMENT_INVALID', 'SETTLEMENT_FAILED']).toContain(told(answer))
      const left = await market.devnet.chain.balanceOf(payment.payer as Hex)
      if (told(answer) === 're: hello') expect(left, 'what was delivered is paid').toBe(1_000_000n - PRICE)
    }
  }
  const call = async () => expect((await honest.execute({ input: 'good day' })).output).toBe('re: good day')
  await expectBearable(call, attack, { calls: 15 })
})
