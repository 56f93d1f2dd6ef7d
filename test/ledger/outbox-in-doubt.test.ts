/** T6 D39: a payment that settles first reached the outbox, and nobody has said so: its work is run, whoever comes back for it. */
import { expect, onTestFinished, test } from 'vitest'
import { failNext } from '../support/fail-next.ts'
import { openShared } from '../support/ledgers.ts'
import { toNextStep } from '../support/next-step.ts'
import { agentId } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { base64, TestSeller, told } from '../support/x402-seller.ts'

/** A seller that loses the answer of the ledger when it puts its first payment into the outbox. */
async function start({ isStored = true } = {}) {
  const [ledger] = await openShared(1)
  const seller = await new TestSeller({ ledger: ledger!, settleFirst: true, attemptTimeoutMs: 20_000 }).start()
  onTestFinished(() => seller.stop())
  failNext(seller.deps.payments, 'save', { code: 'STORE_IN_DOUBT', isStored })
  return seller
}

async function settled(seller: TestSeller, paymentId: `0x${string}`) {
  await until(async () => (await seller.payments.get(paymentId))?.state === 'settled' || toNextStep(seller))
}

test('also if its buyer never asks', async () => {
  const seller = await start()
  const { answer, paymentId } = await (await seller.connect()).buy()
  expect(told(answer)).toBe('SETTLEMENT_FAILED')
  await settled(seller, paymentId)
  await until(async () => (await seller.payments.get(paymentId))?.ran === true)
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
})

test('and a buyer of the original node, which asks with its task alone, does not pay again', async () => {
  const seller = await start()
  const body = base64(JSON.stringify({ resource: agentId, input: 'task' }))
  const peer = await seller.connect()
  const { payment, paymentId, correlation_id } = await peer.challenged({ body })
  expect(told(await peer.paidRequest(payment, { correlation_id, body }))).toBe('SETTLEMENT_FAILED')
  await settled(seller, paymentId)
  expect(told(await peer.request({ body }))).toBe('{"output":"re: task"}')
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
})
