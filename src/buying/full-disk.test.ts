/** T16: the buyer's ledger cannot be written for a while. */
import { expect, onTestFinished, test } from 'vitest'
import { TestBuyer } from '../../test/support/test-buyer.ts'
import { TestSeller } from '../../test/support/x402-seller.ts'
import { StoreError } from '../store/store-error.ts'

test('a purchase that could not be stored before its signature left is made when the same request comes again', async () => {
  const seller = await new TestSeller().start()
  onTestFinished(() => seller.stop())
  const buyer = new TestBuyer({ open: (_, protocol) => seller.open('buyer', protocol) })
  const { purchases } = buyer
  let isFull = true
  const reserve: typeof purchases.reserve = (...asked) =>
    isFull ? Promise.reject(new StoreError('STORE_WRITE_FAILED', 'the disk is full')) : purchases.reserve(...asked)
  buyer.deps.purchases = { ...purchases, reserve }
  const bought = () => buyer.execute({ idempotencyKey: 'k' })
  await expect(bought()).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
  const [failed] = await buyer.ledger()
  // A step of a workflow with retries goes on.
  expect(failed?.order.error).toMatchObject({ code: 'STORE_WRITE_FAILED', retryable: true })
  isFull = false
  expect(await bought()).toMatchObject({ output: 're: task' })
  expect(await bought()).toMatchObject({ output: 're: task' })
  expect(seller.runs).toHaveLength(1)
  expect(await buyer.spent()).toBe(10_000n)
})
