import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createFacilitator, type Facilitator } from '../../src/payments/facilitator.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import { type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { type FaultyRpc, result as rpcResult, startFaultyRpc } from '../support/faulty-rpc.ts'
import { HandClock } from '../support/hand-clock.ts'
import { expectBearable } from '../support/honest-calls.ts'
import { toNextStep } from '../support/next-step.ts'
import { randomHex, requirements, signed, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, TestSeller, type TestSellerOptions, told } from '../support/x402-seller.ts'

/*
 * T5, T6, D50: buyers who want work for payments that the chain will never make, at a seller with an RPC. The chain and the
 * facilitator are real. An honest buyer is served all the while.
 */

/** Answers EIP-1271's `isValidSignature` with yes, whatever was signed. */
const AGREES = '0x631626ba7e60e01b60005260206000f3'
let devnet: Devnet
let faulty: FaultyFacilitator
let facilitator: Facilitator
let rpc: FaultyRpc
let chain: Chain
let honest: Wallet
let payee: Wallet
const sellers: TestSeller[] = []

beforeAll(async () => {
  devnet = await startDevnet()
  faulty = await startFaultyFacilitator(devnet.facilitatorUrl)
  facilitator = createFacilitator({ url: faulty.url })
  rpc = await startFaultyRpc(devnet.rpcUrl)
  const options = { network: usdc.network, asset: usdc.address, rpcUrl: rpc.url, timeoutMs: 30_000 }
  chain = createChain(options, { logger: silentLogger })
})
afterAll(async () => {
  await facilitator.close()
  await rpc.stop()
  await faulty.stop()
  await devnet.stop()
})
beforeEach(async () => {
  payee = createWallet(randomHex(), usdc)
  honest = await payer(1_000_000n)
  // A window of which the newest block is part: the chain's clock stands still without blocks.
  await devnet.chain.mine()
})
afterEach(async () => {
  faulty.faults.length = 0
  faulty.ofPayer.clear()
  rpc.fault = undefined
  await Promise.all(sellers.splice(0).map((seller) => seller.stop()))
})

async function start(options: TestSellerOptions = {}): Promise<TestSeller> {
  const clock = new HandClock(systemClock.now())
  const real = { facilitator, chain, funds: chain, payTo: payee.address }
  const seller = await new TestSeller({ clock, ...real, attemptTimeoutMs: 2_500, ...options }).start()
  sellers.push(seller)
  return seller
}

async function payer(amount: bigint): Promise<Wallet> {
  const wallet = createWallet(randomHex(), usdc)
  await devnet.fund(wallet.address, amount)
  return wallet
}

function sign(seller: TestSeller, wallet: Wallet) {
  return signed(seller.clock.now(), { wallet, requirements: requirements({ payTo: payee.address }) }).envelope
}

async function send(seller: TestSeller, payment: ReturnType<typeof sign>): Promise<unknown> {
  const peer = await seller.connect(payment.payer)
  return told(await peer.request({ payment, body: base64('task') }))
}

const buy = (seller: TestSeller, wallet: Wallet) => send(seller, sign(seller, wallet))

test('T6 T16 a window that is over by the time of the chain buys nothing from a seller whose clock is slow', async () => {
  const slow = await start({ clock: new HandClock(systemClock.now() - 3_600_000) })
  const seller = await start()
  expect(await buy(slow, await payer(1_000_000n))).toBe('PAYMENT_INVALID')
  expect([slow.runs.length, slow.exposure.total]).toEqual([0, 0n])
  expect(await buy(seller, honest)).toBe('re: task')
})

describe('T6 T27 a payer with code (EIP-7702)', () => {
  test('whose code refuses its signature gets no run; nothing is claimed and an honest buyer is served', async () => {
    const seller = await start()
    const wallet = await payer(1_000_000n)
    await devnet.chain.deploySmartWallet(honest.address, wallet.address)
    const peer = await seller.connect()
    const answer = await peer.request({ payment: sign(seller, wallet), body: base64('task') })
    expect(told(answer)).toBe('PAYMENT_INVALID')
    expect(answer?.message.error_message ?? answer?.message.message).toMatch(/invalid signature/)
    expect(seller.runs).toEqual([])
    expect(await buy(seller, honest)).toBe('re: task')
  })

  test('whose code agrees is served and pays', async () => {
    const seller = await start()
    const wallet = await payer(1_000_000n)
    await devnet.chain.client.setCode({ address: wallet.address, bytecode: AGREES })
    expect(await buy(seller, wallet)).toBe('re: task')
    await until(async () => (await seller.payments.counts()).owed === 0 || toNextStep(seller))
    expect(await devnet.chain.balanceOf(payee.address)).toBe(10_000n)
  })
})

test('T6 an empty account gets no run, however cheap it is', async () => {
  const seller = await start()
  expect(await buy(seller, createWallet(randomHex(), usdc))).toBe('PAYMENT_INVALID')
  expect([seller.runs.length, seller.exposure.total]).toEqual([0, 0n])
})

describe('T5 nodes that share a wallet', () => {
  test('run one authorization once: the second finds it spent before it runs', async () => {
    const [first, second] = [await start(), await start()]
    const payment = sign(first, honest)
    expect(await send(first, payment)).toBe('re: task')
    expect(await send(second, payment)).toBe('PAYMENT_INVALID')
    expect(second.runs).toEqual([])
  })

  test('never both book one authorization that was sent to both at once', async () => {
    const [first, second] = [await start(), await start()]
    const gate = Promise.withResolvers<void>()
    second.work = () => gate.promise.then(() => 'late')
    const payment = sign(first, honest)
    const late = send(second, payment)
    await until(() => second.runs.length === 1)
    expect(await send(first, payment)).toBe('re: task')
    gate.resolve()
    expect(await late).toBe('late')
    await until(async () => (await second.payments.counts()).unsettled === 1)
    await until(async () => (await first.payments.counts()).owed === 0 || toNextStep(first))
    expect(await first.payments.counts()).toEqual({ owed: 0, unsettled: 0 })
    expect(await devnet.chain.balanceOf(payee.address)).toBe(10_000n)
  })
})

describe('T6 T13 T26 hashes that a facilitator invents', () => {
  test('bring one payer no more than its bound, and nobody a run that settles first', async () => {
    const seller = await start({ exposure: { perPayerMax: 30_000n }, attemptTimeoutMs: 500 })
    const wallet = await payer(1_000_000n)
    for (let count = 0; count < 6; count++) {
      faulty.faults.push({ kind: 'other-hash', transaction: randomHex() })
      await buy(seller, wallet)
    }
    expect(seller.runs).toHaveLength(3)
    expect(await buy(seller, honest)).toBe('re: task')
  })

  test('leave an honest one’s calls as quick as they were, and the bounds where they were', { retry: 2 }, async () => {
    const totalMax = 200_000n
    const seller = await start({ exposure: { perPayerMax: 30_000n, totalMax }, attemptTimeoutMs: 500 })
    const rich = await payer(100_000_000n)
    const hostile = await Promise.all([payer(1_000_000n), payer(1_000_000n), payer(1_000_000n)])
    for (const { address } of hostile) {
      faulty.ofPayer.set(address.toLowerCase(), () => ({ kind: 'other-hash', transaction: randomHex() }))
    }
    const free = new Map<string, number>()
    const attack = async () => {
      for (let count = 0; count < 4; count++) {
        const answers = await Promise.all(hostile.map((wallet) => buy(seller, wallet)))
        for (const [index, answer] of answers.entries()) {
          const { address } = hostile[index]!
          if (answer === 're: task') free.set(address, (free.get(address) ?? 0) + 1)
        }
      }
    }
    const call = async () => expect(await buy(seller, rich)).toBe('re: task')
    await expectBearable(call, attack, { calls: 15 })
    expect([...free.values()].sort()).toEqual([3, 3, 3])
    expect(seller.exposure.total).toBeGreaterThanOrEqual(90_000n)
    await until(async () => seller.exposure.total === 90_000n || toNextStep(seller))
  })
})

test('T15 an RPC without an answer stops no cheap run, and lets no dear one begin before it is paid', async () => {
  rpc.fault = (request, response) => request.method === 'eth_call' && rpcResult(response, request, 'nonsense')
  expect(await buy(await start(), honest)).toBe('re: task')
  const dear = await start({ exposure: { checkFrom: 10_000n } })
  expect(await buy(dear, honest)).toBe('SETTLEMENT_FAILED')
  expect(dear.runs).toEqual([])
})

test('T5 T6 buyers that cannot or will not pay leave an honest buyer’s calls as quick as before', {
  retry: 2,
}, async () => {
  const seller = await start()
  const [rich, coded] = [await payer(100_000_000n), await payer(1_000_000n)]
  await devnet.chain.deploySmartWallet(honest.address, coded.address)
  const spent = sign(seller, rich)
  expect(await send(seller, spent)).toBe('re: task')
  const attack = async () => {
    for (let count = 0; count < 6; count++) {
      const tries = [buy(seller, createWallet(randomHex(), usdc)), buy(seller, coded), send(seller, spent)]
      expect(await Promise.all(tries)).toEqual(['PAYMENT_INVALID', 'PAYMENT_INVALID', 'PAYMENT_NONCE_USED'])
    }
  }
  await expectBearable(async () => expect(await buy(seller, rich)).toBe('re: task'), attack, { calls: 15 })
})
