/** T6: a payment that was claimed and whose agent never ran is voided, and no other payment is. */
import { expect, test } from 'vitest'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPayments } from '../../src/store/payments.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { claim } from '../support/payments.ts'

const now = Date.parse('2026-01-01T00:00:00Z')

/** A ledger whose next commit loses its answer. */
function losing(ledger: LedgerDatabase, { isStored }: { isStored: boolean }): LedgerDatabase {
  let isLost = false
  return {
    ...ledger,
    async commit(change, ...noted) {
      if (isLost) return ledger.commit(change, ...noted)
      isLost = true
      if (isStored) await ledger.commit(change, ...noted)
      throw new StoreError('STORE_IN_DOUBT', 'the connection was lost')
    },
  }
}

onBothEngines((open) => {
  test('it is voided once, with the reason, and counts as unsettled work no longer', async () => {
    const payments = createPayments(await open())
    const payment = claim(now)
    await payments.claimExposed(payment, now)
    expect(await payments.abandon(payment.id, 'did not run', now + 1)).toBe(true)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'voided', error: 'did not run', updatedAt: now + 1 })
    expect((await payments.exposed(payment.signed.authorization.from)).payments).toBe(0)
    // The answer may have been lost: who asks again hears the same, and nothing changes.
    expect(await payments.abandon(payment.id, 'again', now + 2)).toBe(true)
    expect(await payments.get(payment.id)).toMatchObject({ error: 'did not run', updatedAt: now + 1 })
  })

  test.each(['owed', 'settled', 'unsettled'] as const)('a payment that is %s stays as it is', async (state) => {
    const payments = createPayments(await open())
    const payment = claim(now, { task: 'task' })
    await payments.claim(payment, now)
    await payments.save({ id: payment.id, state: 'owed', nextAttemptAt: now }, now)
    await payments.save({ id: payment.id, state, nextAttemptAt: now }, now)
    expect(await payments.abandon(payment.id, 'did not run', now + 1)).toBe(false)
    expect(await payments.get(payment.id)).toMatchObject({ state, updatedAt: now })
  })

  test('a payment of another process, or one that was never stored, is not touched', async () => {
    const ledger = await open()
    const [payments, others] = [createPayments(ledger), createPayments(asEnded(ledger))]
    const payment = claim(now)
    await others.claimExposed(payment, now)
    expect(await payments.abandon(payment.id, 'did not run', now)).toBe(false)
    expect(await payments.get(payment.id)).toMatchObject({ state: 'authorized' })
    expect(await payments.abandon(claim(now).id, 'did not run', now)).toBe(false)
  })

  test('a claim whose answer was lost is read back, and only that very claim', async () => {
    const ledger = await open()
    const payment = claim(now)
    const lost = createPayments(losing(ledger, { isStored: true }))
    expect(await lost.claimExposed(payment, now)).toMatchObject({ payments: 1, total: 10_000n })
    // Another claim of the same payment was there first.
    const late = createPayments(losing(ledger, { isStored: true }))
    await expect(late.claimExposed(payment, now)).rejects.toMatchObject({ code: 'STORE_IN_DOUBT' })
    const never = createPayments(losing(ledger, { isStored: false }))
    await expect(never.claimExposed(claim(now), now)).rejects.toMatchObject({ code: 'STORE_IN_DOUBT' })
  })
})
