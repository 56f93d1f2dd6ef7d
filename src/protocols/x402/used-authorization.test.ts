/** T5: an authorization that was used is told as used, and an honest one is asked after once, by its claim. */
import { afterEach, expect, test } from 'vitest'
import { TestSeller, type TestSellerOptions, told } from '../../../test/support/x402-seller.ts'

let seller: TestSeller
afterEach(() => seller.stop())

async function start(options: TestSellerOptions = {}) {
  seller = await new TestSeller(options).start()
  let asked = 0
  const { authorizationSeen } = seller.deps.payments
  seller.deps.payments.authorizationSeen = (...authorization) => {
    asked += 1
    return authorizationSeen(...authorization)
  }
  return { peer: await seller.connect(), asked: () => asked }
}

test('the claim of a new authorization finds out whether it is new: nobody reads before it', async () => {
  const { peer, asked } = await start()
  expect(told((await peer.buy()).answer)).toBe('re: task')
  expect(asked()).toBe(0)
})

test('a used one is told as used by a seller that has no room, and not as if nothing had happened', async () => {
  const { peer } = await start({ slots: { concurrentMax: 1, waitingMax: 0 } })
  const first = await peer.buy()
  expect(told(first.answer)).toBe('re: task')
  const [used, unused] = [await peer.challenged(), await peer.challenged()]
  const begun = Promise.withResolvers<void>()
  const work = Promise.withResolvers<string>()
  seller.work = () => {
    begun.resolve()
    return work.promise
  }
  const other = await seller.connect('other')
  const running = other.buy()
  await begun.promise
  const again = { ...first.payment, server_nonce: used.payment.server_nonce }
  expect(told(await peer.paidRequest(again, { correlation_id: used.correlation_id }))).toBe('PAYMENT_NONCE_USED')
  // One that is new is told that there is no room.
  expect(told(await peer.paidRequest(unused.payment, { correlation_id: unused.correlation_id }))).toBe('OVERLOADED')
  work.resolve('done')
  expect(told((await running).answer)).toBe('done')
})
