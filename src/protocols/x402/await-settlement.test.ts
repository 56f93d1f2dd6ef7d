import { afterEach, describe, expect, test } from 'vitest'
import { FakeSettlement } from '../../../test/support/fake-settlement.ts'
import { signed } from '../../../test/support/payments.ts'
import { until } from '../../../test/support/until.ts'
import { base64, TestSeller, type TestSellerOptions, told } from '../../../test/support/x402-seller.ts'
import { orAborted } from '../../lib/wait.ts'
import type { Facilitator } from '../../payments/facilitator.ts'

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** A seller whose facilitator answers when the test lets it. */
async function slowMarket(options: TestSellerOptions = {}) {
  const settlement = new FakeSettlement()
  const { promise: open, resolve: release } = Promise.withResolvers<void>()
  const asked: string[] = []
  const facilitator: Facilitator = {
    ...settlement.facilitator,
    settle: async (...call) => {
      asked.push(call[0].authorization.nonce)
      await orAborted(open, call[2])
      return settlement.facilitator.settle(...call)
    },
  }
  const seller = await new TestSeller({ attemptTimeoutMs: 60_000, ...options, settlement, facilitator }).start()
  ends.push(() => seller.stop(), release)
  return { seller, settlement, asked, release }
}

/** Sends a paid request by hand. `answered` is set once the seller has answered. */
async function sell(seller: TestSeller, extension: Record<string, unknown>) {
  const peer = await seller.connect()
  const { payment, paymentId, correlation_id } = await peer.challenged()
  const said = { answered: false }
  const answer = peer.paidRequest(payment, { correlation_id, ...extension }).finally(() => {
    said.answered = true
  })
  return { peer, payment, paymentId, answer, said }
}

describe('D46: a buyer that sends await_settlement: false', () => {
  test('gets its result when result and debt are on disk, and asks for the transaction later', async () => {
    const { seller, release } = await slowMarket()
    const { peer, payment, paymentId, answer } = await sell(seller, { await_settlement: false })
    expect(told(await answer)).toBe('re: task')
    expect((await answer)?.message).toMatchObject({ payment_id: paymentId, tx_hash: '' })
    expect(await seller.payments.get(paymentId)).toMatchObject({ state: 'owed', attempts: 1 })
    expect(await seller.exchanges.paidOutput(paymentId)).toBe('re: task')
    expect((await peer.askResult(payment))?.message).toMatchObject({ tx_hash: '' })
    release()
    await until(async () => (await seller.payments.get(paymentId))?.txHash)
    seller.clock.advance(2_000)
    await until(async () => (await seller.payments.get(paymentId))?.state === 'settled')
    const { txHash } = (await seller.payments.get(paymentId))!
    expect((await peer.askResult(payment))?.message).toMatchObject({ tx_hash: txHash, body: base64('re: task') })
    expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
  })

  test('gets it also for a preemptive payment', async () => {
    const { seller } = await slowMarket()
    const { envelope } = signed(seller.clock.now(), { serverNonce: 'preemptive' })
    const answer = await (await seller.connect()).request({ payment: envelope, await_settlement: false })
    expect([told(answer), answer?.message.tx_hash]).toEqual(['re: task', ''])
  })

  test('waits where the seller settles first: nothing runs before', async () => {
    const { seller, asked, release } = await slowMarket({ settleFirst: true })
    const { answer, said, paymentId } = await sell(seller, { await_settlement: false })
    await until(() => asked.length === 1)
    expect([said.answered, seller.runs.length]).toEqual([false, 0])
    release()
    expect(told(await answer)).toBe('re: task')
    expect((await answer)?.message.tx_hash).toBe((await seller.payments.get(paymentId))?.txHash)
  })

  test('T6: has no more credit than before: over the limit its payment settles first', async () => {
    const { seller, asked, release } = await slowMarket({ exposure: { perPayerMax: 20_000n } })
    for (const sale of [1, 2]) {
      const { answer } = await sell(seller, { await_settlement: false })
      expect([sale, told(await answer)]).toEqual([sale, 're: task'])
    }
    const third = await sell(seller, { await_settlement: false })
    await until(() => asked.length === 3)
    expect([third.said.answered, seller.runs.length]).toEqual([false, 2])
    release()
    expect(told(await third.answer)).toBe('re: task')
    expect(seller.runs).toHaveLength(3)
  })

  test('T6: and does not pay: the seller books a loss, and takes the next payment only ahead of the run', async () => {
    const { seller, settlement, asked, release } = await slowMarket()
    settlement.plan.push({ moves: false, answer: { kind: 'refused', reason: 'insufficient_funds' } })
    const first = await sell(seller, { await_settlement: false })
    expect(told(await first.answer)).toBe('re: task')
    release()
    await until(async () => (await seller.payments.get(first.paymentId))?.state === 'unsettled')
    expect(await seller.payments.get(first.paymentId)).toMatchObject({ blamed: true, txHash: undefined })
    const second = await sell(seller, { await_settlement: false })
    expect(told(await second.answer)).toBe('re: task')
    // Settled before the run: the answer names the transaction although nobody waited for it.
    expect((await second.answer)?.message.tx_hash).toMatch(/^0x/)
    expect(asked).toHaveLength(2)
  })

  test('does not make a seller that stops leave its settlement to the next start', async () => {
    const { seller, asked, release } = await slowMarket()
    const { answer, paymentId } = await sell(seller, { await_settlement: false })
    expect(told(await answer)).toBe('re: task')
    await until(() => asked.length === 1)
    const { settler } = seller.deps
    const idle = settler.idle.bind(settler)
    settler.idle = () => {
      release()
      return idle()
    }
    await seller.stop()
    expect(await seller.payments.get(paymentId)).toMatchObject({ txHash: expect.stringMatching(/^0x/) })
  })
})

describe('D31: a buyer that does not know the field, or sends another value, waits as before', () => {
  test.each([[{}], [{ await_settlement: true }], [{ await_settlement: 'false' }], [{ await_settlement: null }]])(
    '%j',
    async (extension) => {
      const { seller, asked, release } = await slowMarket()
      const { answer, said, paymentId } = await sell(seller, extension)
      await until(() => asked.length === 1)
      expect(await seller.payments.get(paymentId)).toMatchObject({ state: 'owed' })
      // A whole other sale ends meanwhile, so an answer would have come too.
      expect(told(await (await sell(seller, { await_settlement: false })).answer)).toBe('re: task')
      expect(said.answered).toBe(false)
      release()
      expect(told(await answer)).toBe('re: task')
      const txHash = await until(async () => (await seller.payments.get(paymentId))?.txHash)
      expect((await answer)?.message.tx_hash).toBe(txHash)
    },
  )
})
