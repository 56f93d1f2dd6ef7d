/** T16: a ledger that cannot be written, such as on a full disk, stores no claim. The payment buys its run when it can. */
import { expect, onTestFinished, test } from 'vitest'
import { agentId, signed } from '../../../test/support/payments.ts'
import { TestSeller, told } from '../../../test/support/x402-seller.ts'
import { StoreError } from '../../store/store-error.ts'
import { DoorSales } from '../doors/door-sales.ts'

/** A seller that cannot store its next claim. */
async function start(code: StoreError['code']) {
  const seller = await new TestSeller().start()
  onTestFinished(() => seller.stop())
  const { payments } = seller.deps
  const { claimExposed } = payments
  payments.claimExposed = async () => {
    payments.claimExposed = claimExposed
    throw new StoreError(code, 'the disk is full')
  }
  return seller
}

test('over HTTP and MCP a client is told to send the same again, and then it buys one run', async () => {
  const seller = await start('STORE_WRITE_FAILED')
  const { envelope } = signed(seller.clock.now())
  const doors = new DoorSales(seller.deps)
  const request = { door: 'http', agentId, input: 'task', payment: envelope, boundTo: Buffer.from('task') } as const
  expect(await doors.sell(request)).toMatchObject({ kind: 'busy', reason: expect.stringMatching(/cannot write/) })
  expect(await doors.sell(request)).toMatchObject({ kind: 'result', output: 're: task' })
  expect([seller.runs.length, seller.settlement.attempts.length]).toEqual([1, 1])
})

test.each(['STORE_WRITE_FAILED', 'STORE_REFUSED'] as const)(
  'a peer hears the last word, and can buy elsewhere: %s',
  async (code) => {
    const seller = await start(code)
    const peer = await seller.connect()
    const { envelope } = signed(seller.clock.now())
    expect(told(await peer.request({ payment: envelope }))).toBe('EXECUTION_FAILED')
    expect(told(await peer.askResult(envelope))).toBe('PAYMENT_REQUIRED')
    expect(seller.runs).toHaveLength(0)
  },
)
