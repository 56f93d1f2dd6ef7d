import { onTestFinished } from 'vitest'
import { TestSeller, type TestSellerOptions } from './x402-seller.ts'

/** Starts a seller over streams in memory. It stops when the test that calls this has ended. */
export async function startSeller(options: TestSellerOptions = {}): Promise<TestSeller> {
  const seller = await new TestSeller(options).start()
  onTestFinished(() => seller.stop())
  return seller
}
