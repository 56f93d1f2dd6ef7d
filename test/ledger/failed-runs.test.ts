/** T7 D45: settled work whose runs fail is counted in the ledger, and nobody begins it by what was read before a failure. */
import { expect, test } from 'vitest'
import { createPayments } from '../../src/store/payments.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { claim } from '../support/payments.ts'

const now = Date.parse('2026-01-01T00:00:00Z')

onBothEngines((_open, openTwo) => {
  test('who has read the payment before another process failed with it does not run it', async () => {
    const [a, b] = (await openTwo()).map(createPayments) as [
      ReturnType<typeof createPayments>,
      ReturnType<typeof createPayments>,
    ]
    const payment = claim(now, { task: 'task' })
    await a.claim(payment, now)
    await a.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
    await a.save({ id: payment.id, state: 'settled' }, now)
    await a.endRun(payment.id)
    const before = (await b.get(payment.id))!
    expect(before.failedRuns).toBeUndefined()

    expect(await a.beginRun(before)).toBe(true)
    expect(await a.runFailed(payment.id, now + 1)).toBe(1)
    await a.endRun(payment.id)
    expect(await b.beginRun(before)).toBe(false)
    const after = (await b.get(payment.id))!
    expect(after.failedRuns).toEqual({ count: 1, lastAt: now + 1 })
    expect(await b.beginRun(after)).toBe(true)
    expect(await b.runFailed(payment.id, now + 2)).toBe(2)
  })
})
