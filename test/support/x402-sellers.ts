import { onTestFinished } from 'vitest'
import { FakeSettlement } from './fake-settlement.ts'
import { HandClock } from './hand-clock.ts'
import { openShared } from './ledgers.ts'
import { TestSeller, type TestSellerOptions } from './x402-seller.ts'

/** Processes of one seller on one ledger, with one clock and one facilitator, until the test ends. */
export async function startSellers(count: number, options: TestSellerOptions = {}): Promise<TestSeller[]> {
  const ledgers = await openShared(count)
  // A ledger on a server answers slowly on a loaded machine.
  const attemptTimeoutMs = 20_000
  const shared = { settlement: new FakeSettlement(), clock: new HandClock(), attemptTimeoutMs, ...options }
  const sellers = ledgers.map((ledger) => new TestSeller({ ...shared, ledger }))
  onTestFinished(async () => void (await Promise.all(sellers.map((seller) => seller.stop()))))
  for (const seller of sellers) await seller.start()
  return sellers
}

export const runsOf = (sellers: readonly TestSeller[]) => sellers.reduce((sum, { runs }) => sum + runs.length, 0)
