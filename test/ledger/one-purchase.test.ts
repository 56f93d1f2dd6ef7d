import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/store/database.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { TestBuyer, type TestBuyerOptions } from '../support/test-buyer.ts'
import { TestSeller } from '../support/x402-seller.ts'

onBothEngines((_open, openTwo) => {
  test('D38, D33 two processes that get the same request at the same instant make one order and one payment', async () => {
    const seller = await new TestSeller().start()
    onTestFinished(() => seller.stop())
    const open: TestBuyerOptions['open'] = (_peer, protocol) => seller.open('buyer', protocol)
    const ledgers = await openTwo()
    // A test buyer needs SQLite only to list what it bought.
    const buyers = ledgers.map((ledger) => new TestBuyer({ clock: seller.clock, open, database: ledger as Database }))
    for (let round = 1; round <= 3; round += 1) {
      const asked = { input: `task ${round}`, idempotencyKey: `k${round}` }
      const outcomes = await Promise.allSettled(buyers.map((buyer) => buyer.execute(asked)))
      expect(outcomes.map(({ status }) => status)).toContain('fulfilled')
      // The process that did not buy may be asked again.
      const [first, second] = await Promise.all(buyers.map((buyer) => buyer.execute(asked)))
      expect(first).toMatchObject({ output: `re: task ${round}`, order_id: second!.order_id })
      expect([seller.runs.length, await buyers[0]!.spent()]).toEqual([round, BigInt(round) * 10_000n])
    }
  })
})
