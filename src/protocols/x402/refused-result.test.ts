/** A result that the ledger does not take: nobody is charged, nothing is tried again, and nothing is left open. */
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { TestSeller, told } from '../../../test/support/x402-seller.ts'
import { openDatabase } from '../../store/database.ts'
import type { LedgerDatabase } from '../../store/ledger-database.ts'
import { StoreError } from '../../store/store-error.ts'

/** A seller whose ledger refuses the next change after each run of its agent. */
async function start({ settleFirst = false } = {}) {
  const database = openDatabase({ path: ':memory:' })
  let isRefusing = false
  let refused = 0
  const ledger: LedgerDatabase = {
    ...database,
    async commit(change, ...noted) {
      if (!isRefusing) return database.commit(change, ...noted)
      isRefusing = false
      refused += 1
      throw new StoreError('STORE_REFUSED', 'the database does not take a value of this request')
    },
  }
  const seller = await new TestSeller({ ledger, settleFirst }).start()
  onTestFinished(() => seller.stop())
  seller.work = async () => {
    isRefusing = true
    return 'a result'
  }
  return { seller, refused: () => refused }
}

test('a result that the ledger refuses voids its payment, and the buyer is told', async () => {
  const { seller, refused } = await start()
  const peer = await seller.connect()
  const { answer, payment, paymentId } = await peer.buy()
  expect(told(answer)).toBe('EXECUTION_FAILED')
  expect(answer?.message.reason ?? answer?.message.message).toMatch(/does not take the result.*not charged/)
  await until(async () => (await seller.payments.get(paymentId))?.state === 'voided')
  expect(told(await peer.askResult(payment))).toBe('EXECUTION_FAILED')
  expect([refused(), seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1, 0])
  // The next sale is as any other.
  seller.work = undefined
  expect(told((await peer.buy('next')).answer)).toBe('re: next')
})

test('a paid result that the ledger refuses is said to have failed, and is not called free of charge', async () => {
  const { seller, refused } = await start({ settleFirst: true })
  const peer = await seller.connect()
  const { answer, paymentId } = await peer.buy()
  expect(told(answer)).toBe('EXECUTION_FAILED')
  expect(JSON.stringify(answer)).not.toContain('nobody was charged')
  expect((await seller.payments.get(paymentId))?.state).toBe('settled')
  expect([refused(), seller.runs.length]).toEqual([1, 1])
})
