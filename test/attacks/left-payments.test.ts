/**
 * T5, T6, ADR-38: buyers who want two runs, or one for nothing, of a payment that its process leaves to another one. The ledger is PostgreSQL,
 * and the chain is the judge.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { NoMachine } from '../../src/agents/runtime.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createFacilitator, type Facilitator } from '../../src/payments/facilitator.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { HandClock } from '../support/hand-clock.ts'
import { toNextStep } from '../support/next-step.ts'
import { randomHex, requirements, signed, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, type TestSeller, told } from '../support/x402-seller.ts'
import { runsOf, startSellers } from '../support/x402-sellers.ts'

const FUNDS = 1_000_000n
const PRICE = 10_000n
const body = base64('task')
let devnet: Devnet
let facilitator: Facilitator
let chain: Chain

beforeAll(async () => {
  devnet = await startDevnet()
  facilitator = createFacilitator({ url: devnet.facilitatorUrl })
  const options = { network: usdc.network, asset: usdc.address, rpcUrl: devnet.rpcUrl, timeoutMs: 30_000 }
  chain = createChain(options, { logger: silentLogger })
})
afterAll(async () => {
  await facilitator.close()
  await devnet.stop()
})
beforeEach(async () => {
  await devnet.chain.mine()
})

/** Three processes, of which the first runs a payment until `lose`: then it has lost the machine. */
async function started() {
  const payee = createWallet(randomHex(), usdc)
  const key = randomHex()
  const wallet = createWallet(key, usdc)
  await devnet.fund(wallet.address, FUNDS)
  const real = { facilitator, chain, funds: chain, payTo: payee.address, attemptTimeoutMs: 20_000 }
  const sellers = await startSellers(3, { ...real, clock: new HandClock(systemClock.now()) })
  const [first, second, third] = sellers as [TestSeller, TestSeller, TestSeller]
  const machine = Promise.withResolvers<string>()
  for (const seller of sellers) seller.addAgent({ isSoldElsewhere: () => true })
  first.work = () => machine.promise
  const peer = await first.connect()
  const correlation_id = randomUUID()
  const asked = await peer.request({ body, correlation_id })
  const serverNonce = asked!.message.challenge_nonce as Hex
  const now = first.clock.now()
  const { envelope, paymentId } = signed(now, {
    wallet,
    serverNonce,
    requirements: requirements({ payTo: payee.address }),
  })
  const paid = peer.paidRequest(envelope, { correlation_id, body, may_move: true }).then(told)
  await until(() => first.runs.length === 1)
  const lose = async () => {
    machine.reject(new NoMachine())
    first.work = undefined
    return paid
  }
  const again = async (seller: TestSeller, changes: object = {}) => {
    const payment = { ...envelope, server_nonce: 'preemptive' }
    const sender = await seller.connect()
    return told(await sender.request({ payment, body, may_move: true, ...changes }))
  }
  const earned = () => devnet.chain.balanceOf(payee.address)
  const cancel = () => devnet.chain.cancelAuthorization(key, serverNonce)
  return { sellers, first, second, third, envelope, paymentId, lose, again, earned, cancel }
}

/** Nothing more is bought with it anywhere, with whatever task. */
async function expectUsed({ sellers, again }: Pick<Awaited<ReturnType<typeof started>>, 'sellers' | 'again'>) {
  const runs = runsOf(sellers)
  const answers = await Promise.all(
    sellers.flatMap((seller) => [again(seller), again(seller, { body: base64('two') })]),
  )
  expect(new Set(answers)).toEqual(new Set(['PAYMENT_NONCE_USED']))
  expect(runsOf(sellers)).toBe(runs)
}

test('T5 sent to all processes while and after it is left, with several tasks, it has one result and one charge', async () => {
  const { sellers, first, second, third, lose, again, earned, paymentId } = await started()
  // At this process, and at others, it is under way.
  await expectUsed({ sellers, again })
  const storm = sellers.flatMap((seller) => [again(seller), again(seller, { body: base64('another') })])
  expect(await lose()).toBe('OVERLOADED')
  storm.push(again(second, { body: base64('another') }), again(third), again(first))
  const answers = await Promise.all(storm)
  expect(answers.filter((answer) => answer !== 'PAYMENT_NONCE_USED')).toHaveLength(1)
  expect(runsOf(sellers)).toBe(2)
  await expectUsed({ sellers, again })
  await until(async () => (await first.payments.get(paymentId))?.state === 'settled' || toNextStep(...sellers))
  expect(await earned()).toBe(PRICE)
})

test('T6 a payment that was canceled on the chain meanwhile is run at no other process', async () => {
  const { sellers, lose, again, cancel, earned } = await started()
  await lose()
  await cancel()
  await expectUsed({ sellers, again })
  expect([runsOf(sellers), await earned()]).toEqual([1, 0n])
})

test('T6 a payment whose window is over, or too short for the run to settle after it, is run at no other process', async () => {
  const { sellers, first, lose, again, earned } = await started()
  await lose()
  first.clock.advance(240_000)
  await expectUsed({ sellers, again })
  expect([runsOf(sellers), await earned()]).toEqual([1, 0n])
})

test('T6 under a new challenge it is not taken, so that no process leaves it a second time', async () => {
  const { sellers, second, envelope, lose, again, earned } = await started()
  await lose()
  const peer = await second.connect()
  const correlation_id = randomUUID()
  const { message } = (await peer.request({ body, correlation_id }))!
  const payment = { ...envelope, server_nonce: message.challenge_nonce as Hex }
  expect(told(await peer.paidRequest(payment, { correlation_id, body, may_move: true }))).toBe('PAYMENT_NONCE_USED')
  second.work = () => Promise.reject(new NoMachine())
  expect(await again(second)).toBe('EXECUTION_FAILED')
  await expectUsed({ sellers, again })
  expect([runsOf(sellers), await earned()]).toEqual([2, 0n])
})
