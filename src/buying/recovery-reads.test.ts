import { afterEach, expect, test, vi } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { createFakeMarket } from '../../test/support/fake-market.ts'
import { agentId, payTo, randomHex, usdc } from '../../test/support/payments.ts'
import { ScriptedSeller } from '../../test/support/scripted-seller.ts'
import { openDatabase } from '../store/database.ts'

afterEach(() => void vi.useRealTimers())

/** Calls a seller that names a transaction, or none, and counts the statements of the 12 s after the calls. */
async function readAfter(calls: number, txHash: () => string): Promise<{ statements: number; asked: number }> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true })
  const seller = new ScriptedSeller(async (stream) => {
    for (let message = await stream.next(); message !== undefined; message = await stream.next()) {
      const isUnpaid = message.type === 'x402.request' && message.message.payment === null
      await (isUnpaid
        ? stream.challenge(message, { challenge_nonce: randomHex() })
        : stream.respond(message, { tx_hash: txHash() }))
    }
  })
  const database = openDatabase({ path: ':memory:' })
  const listing = listingFixture({ id: agentId, pay_to: payTo, asset: usdc.address, seller_id: 'seller' })
  const buyer = createFakeMarket(() => [listing], { database, openStream: seller.open })
  const recovery = buyer.services.find(({ name }) => name === 'recovery')!
  await recovery.start()
  await vi.advanceTimersByTimeAsync(100)
  const prepare = vi.spyOn(database, 'prepare')
  for (let n = 0; n < calls; n++) {
    await buyer.execute({ agentId, input: 'task', signal: AbortSignal.timeout(10_000) })
  }
  const received = seller.received.length
  prepare.mockClear()
  await vi.advanceTimersByTimeAsync(12_000)
  await recovery.stop()
  return { statements: prepare.mock.calls.length, asked: seller.received.length - received }
}

test('the recovery reads nothing after calls that leave nothing in doubt', async () => {
  expect(await readAfter(20, randomHex)).toEqual({ statements: 0, asked: 0 })
})

test('the recovery asks the seller for a transaction that it has not named', async () => {
  expect((await readAfter(2, () => '')).asked).toBeGreaterThanOrEqual(2)
})
