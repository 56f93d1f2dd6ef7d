/** T23 D51: A2A tasks whose turn comes so late that their payment has to settle before the run. */
import { afterEach, expect, test } from 'vitest'
import { payingTurn } from '../../test/support/a2a-turn.ts'
import { failNext } from '../../test/support/fail-next.ts'
import { FakeSettlement, unclear } from '../../test/support/fake-settlement.ts'
import { agentId, signed, testWallet } from '../../test/support/payments.ts'
import { until } from '../../test/support/until.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { MarketError } from '../listings/market-error.ts'
import { paymentKeys as keys } from '../schema/a2a.ts'
import { agentWork } from './agent-work.ts'
import type { Turn } from './executor.ts'

let seller: TestSeller
afterEach(() => seller.stop())

const progress = { working: () => {} }

/** Pays for a task that waits behind another run until the window of its payment no longer covers its own. */
async function payLate(before: (turn: Turn) => void = () => {}) {
  seller = await new TestSeller({ slots: { concurrentMax: 1, waitingMax: 8 } }).start()
  const work = agentWork(agentId, 'd', seller.deps)
  const { promise: gate, resolve: end } = Promise.withResolvers<string>()
  seller.work = () => gate
  const first = work(payingTurn(signed(seller.clock.now(), { wallet: testWallet(2) })), progress)
  await until(() => seller.runs.length === 1)
  const { envelope, paymentId } = signed(seller.clock.now())
  const turn = payingTurn({ envelope })
  turn.signal = turn.running.controller.signal
  const outcome = work(turn, progress)
  await until(() => seller.payments.get(paymentId))
  seller.clock.advance(100_000)
  seller.work = undefined
  before(turn)
  end('first')
  await first
  const { nonce } = envelope.payload!.authorization
  return { outcome, turn, paymentId, attempts: () => seller.settlement.attempts.filter((one) => one === nonce).length }
}

test('an agent that fails after such a payment runs again: its payer is not told that nothing was charged', async () => {
  const { outcome, turn, attempts } = await payLate(() => {
    seller.work = async () => {
      seller.work = undefined
      throw new Error('broken once')
    }
  })
  expect(await outcome).toMatchObject({ kind: 'completed', output: 're: work' })
  expect([attempts(), turn.running.canCancel]).toEqual([1, false])
}, 20_000)

test('such a payment that settles slowly does not fail its task: its payer would sign another', async () => {
  const { usual } = new FakeSettlement()
  const { outcome, paymentId } = await payLate(() => {
    seller.settlement.usual = unclear
  })
  await until(() => seller.deps.deferred.was(paymentId))
  seller.settlement.usual = usual
  await until(async () => {
    seller.clock.advance(500)
    return (await seller.payments.get(paymentId))?.state === 'settled'
  })
  expect(await outcome).toMatchObject({
    kind: 'completed',
    output: 're: work',
    metadata: { [keys.status]: 'payment-completed' },
  })
  expect(seller.runs).toHaveLength(2)
}, 20_000)

test('a task that was canceled while it waited pays nothing', async () => {
  const { outcome, paymentId, attempts } = await payLate(({ running }) => {
    expect(running.canCancel).toBe(true)
    running.isCanceled = true
    running.controller.abort(new MarketError('ORDER_CANCELLED', 'canceled by the caller'))
  })
  expect(await outcome).toMatchObject({ kind: 'canceled', text: expect.stringMatching(/nothing is charged/) })
  expect(attempts()).toBe(0)
  await until(async () => (await seller.payments.get(paymentId))?.state === 'voided')
  expect(seller.runs).toHaveLength(1)
})

test('a payment whose settlement could not begin is void: its payer is not told that it has paid', async () => {
  seller = await new TestSeller({ settleFirst: true }).start()
  failNext(seller.deps.payments, 'save')
  const outcome = await agentWork(agentId, 'd', seller.deps)(payingTurn(signed(seller.clock.now())), progress)
  expect(outcome).toMatchObject({
    kind: 'failed',
    text: expect.stringMatching(/nothing is charged/),
    metadata: { [keys.status]: 'payment-failed' },
  })
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([0, 0])
}, 20_000)
