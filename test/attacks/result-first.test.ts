/** T6 D46: a payer that takes its result before the settlement, and then withdraws the authorization. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createChain } from '../../src/chain/chain.ts'
import { signedPayment } from '../../src/ledger/payment-view.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { orAborted } from '../../src/lib/wait.ts'
import type { PaymentChain } from '../../src/payments/chain-verdict.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { type ChainMarket, startChainMarket } from '../support/chain-market.ts'
import { HandClock } from '../support/hand-clock.ts'
import { randomHex, usdc } from '../support/payments.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { until } from '../support/until.ts'

let market: ChainMarket
beforeAll(async () => {
  market = await startChainMarket()
})
afterAll(() => market.stop())

test('has a result, is charged nothing, and gets no second one before it has paid', async () => {
  const { devnet } = market
  const clock = new HandClock(systemClock.now())
  const real = createChain(
    { network: usdc.network, asset: usdc.address, rpcUrl: devnet.rpcUrl, timeoutMs: 30_000 },
    { logger: silentLogger },
  )
  // Blocks follow the hand clock: the chain tells what has expired by its own time.
  const authorizationAt: PaymentChain['authorizationAt'] = async (...asked) => ({
    ...(await real.authorizationAt(...asked)),
    timeMs: clock.now(),
  })
  const chain = { ...real, authorizationAt }
  let gate = Promise.withResolvers<void>()
  let asked = 0
  const facilitator = {
    ...market.facilitator,
    settle: async (...call: Parameters<typeof market.facilitator.settle>) => {
      asked++
      await orAborted(gate.promise, call[2])
      return market.facilitator.settle(...call)
    },
  }
  const seller = await market.seller({ clock, chain, facilitator, attemptTimeoutMs: 30_000 })
  const key = randomHex()
  const wallet = createWallet(key, usdc)
  await devnet.fund(wallet.address, 1_000_000n)
  const open: TestBuyer['deps']['openStream'] = (_peer, protocol) => seller.open('cheat', protocol)
  const buyer = new TestBuyer({ clock, wallet, open, chain })
  buyer.list({ pay_to: seller.payee })

  expect(await buyer.execute()).toMatchObject({ output: 're: task', payment: { settlement: 'pending' } })
  const reservationOf = async () => (await buyer.ledger())[0]!.reservation!
  const { paymentId, orderId, validBeforeSeconds, envelope } = await reservationOf()
  await until(() => asked === 1)
  await devnet.chain.cancelAuthorization(key, envelope.payload!.authorization.nonce as Hex)
  gate.resolve()
  await until(async () => {
    const { state, error, nextAttemptAt = 0 } = (await seller.payments.get(paymentId))!
    if (state === 'owed' && error !== undefined && nextAttemptAt > clock.now()) clock.set(nextAttemptAt)
    return state === 'unsettled'
  })
  expect(await seller.payments.get(paymentId)).toMatchObject({ blamed: true, ran: true })
  expect(await devnet.chain.balanceOf(seller.payee)).toBe(0n)

  // The seller's word counts for nothing at the buyer, and the window is open: its money stays held.
  await buyer.recovery.look(orderId)
  expect([signedPayment(await reservationOf()).book, await buyer.spent()]).toEqual(['held', 10_000n])
  clock.set(validBeforeSeconds * 1000 + 31_000)
  await buyer.recovery.look(orderId)
  expect([signedPayment(await reservationOf()).book, await buyer.spent()]).toEqual(['not_charged', 0n])
  expect(await buyer.ledger()).toMatchObject([{ order: { status: 'completed', output: 're: task' } }])

  clock.set(systemClock.now())
  gate = Promise.withResolvers()
  const second = buyer.execute()
  await until(() => asked === 2)
  expect(seller.runs).toHaveLength(1)
  gate.resolve()
  expect((await second).payment).toMatchObject({ settlement: 'claimed' })
  expect([seller.runs.length, await devnet.chain.balanceOf(seller.payee)]).toEqual([2, 10_000n])
})
