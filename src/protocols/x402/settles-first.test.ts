/** D45: the buyer is told before it signs that its payment is settled before the agent runs, and may refuse. */
import { expect, test } from 'vitest'
import { FakeSettlement, unclear } from '../../../test/support/fake-settlement.ts'
import { agentId, requirements, signed, testWallet } from '../../../test/support/payments.ts'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestSeller, told } from '../../../test/support/x402-seller.ts'
import { openDatabase } from '../../store/database.ts'

/** What a peer is told of this when it asks for a challenge. */
async function extra(seller: TestSeller, peerId = 'peer-1', changes: object = {}): Promise<unknown> {
  const answer = await (await seller.connect(peerId)).request({ ...changes })
  expect(answer?.type).toBe('x402.payment_required')
  return (answer!.message.payment_requirements as { extra?: unknown }).extra
}
async function buy(seller: TestSeller, payer = 1, changes: object = {}): Promise<unknown> {
  const peer = await seller.connect(`peer-${payer}`)
  const { envelope } = signed(seller.clock.now(), { wallet: testWallet(payer) })
  return told(await peer.request({ payment: envelope, body: base64('task'), ...changes }))
}
const says = { settles_first: true }

test('D45 a challenge says nothing of it where the agent runs first', async () => {
  expect(await extra(await startSeller())).toBeUndefined()
})

test('D45 a challenge says it by the seller’s own choice', async () => {
  expect(await extra(await startSeller({ settleFirst: true }))).toEqual(says)
})

test('D45 a challenge says it to whoever wants to see a run that is shown after settlement alone', async () => {
  const seller = await startSeller()
  seller.addAgent({ id: agentId, streaming: 'after_settlement' })
  expect([await extra(seller), await extra(seller, 'peer-1', { stream: true })]).toEqual([undefined, says])
})

test('D45 a challenge says it to a peer whose account owes too much, and to all once all do', async () => {
  const seller = await startSeller({ exposure: { perPayerMax: 10_000n, totalMax: 20_000n } })
  seller.settlement.usual = unclear
  expect(await buy(seller)).toBe('re: task')
  expect([await extra(seller), await extra(seller, 'peer-2')]).toEqual([says, undefined])
  expect(await buy(seller, 2)).toBe('re: task')
  expect(await extra(seller, 'peer-3')).toEqual(says)
})

test('D45 a challenge says it to a peer whose account was blamed for a loss, after a restart too', async () => {
  const settlement = new FakeSettlement()
  const database = openDatabase({ path: ':memory:' })
  const seller = await startSeller({ database, settlement })
  settlement.plan.push({ moves: false, answer: { kind: 'refused', reason: 'insufficient_funds' } })
  expect(await buy(seller)).toBe('re: task')
  await until(async () => (await seller.payments.counts()).unsettled === 1)
  expect([await extra(seller), await extra(seller, 'peer-2')]).toEqual([says, undefined])
  await seller.stop()
  const again = await startSeller({ database, settlement, clock: seller.clock })
  expect([await extra(again), await extra(again, 'peer-2')]).toEqual([says, undefined])
})

test('D45 a payment whose buyer does not allow it is refused instead of settled first, and can still be used', async () => {
  const seller = await startSeller({ settleFirst: true })
  const peer = await seller.connect()
  const { envelope } = signed(seller.clock.now())
  const asked = { payment: envelope, body: base64('task') }
  expect(told(await peer.request({ ...asked, allow_settle_first: false }))).toBe('PAYMENT_INVALID')
  expect([seller.runs, seller.settlement.attempts]).toEqual([[], []])
  expect(told(await peer.request(asked))).toBe('re: task')
})

test('D51 D45 a payment whose turn comes late is voided, and not settled first, where its buyer does not allow that', async () => {
  const seller = await startSeller({ slots: { concurrentMax: 1, waitingMax: 8 } })
  const { promise: done, resolve: end } = Promise.withResolvers<string>()
  seller.work = () => done
  const before = buy(seller)
  await until(() => seller.runs.length === 1)
  const peer = await seller.connect('peer-2')
  const { envelope, paymentId } = signed(seller.clock.now(), { wallet: testWallet(2) })
  const late = peer.request({ payment: envelope, body: base64('late'), allow_settle_first: false })
  await until(() => seller.payments.get(paymentId))
  seller.clock.advance(100_000)
  seller.work = undefined
  end('first')
  expect(await before).toBe('first')
  expect((await late)?.message).toMatchObject({
    error_name: 'EXECUTION_FAILED',
    retryable: true,
    message: expect.stringContaining('nothing was charged'),
  })
  expect(await seller.payments.get(paymentId)).toMatchObject({
    state: 'voided',
    error: expect.stringContaining('too late'),
  })
  expect(seller.settlement.attempts).not.toContain(envelope.payload!.authorization.nonce)
  expect(seller.runs).toHaveLength(1)
})

test('D51 D45 a window that does not cover the run is refused to a buyer that allows no settling first', async () => {
  const seller = await startSeller()
  const { envelope } = signed(seller.clock.now(), { requirements: requirements({ maxTimeoutSeconds: 60 }) })
  const peer = await seller.connect()
  const asked = { payment: envelope, body: base64('task'), allow_settle_first: false }
  expect(told(await peer.request(asked))).toBe('PAYMENT_INVALID')
  expect(await buy(seller, 2, { allow_settle_first: false })).toBe('re: task')
})
