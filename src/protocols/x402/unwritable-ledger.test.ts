/** T16: a ledger that cannot be written, such as on a full disk, stores no claim. The payment buys its run when it can. */
import { expect, onTestFinished, test } from 'vitest'
import { ChannelBuyer, channelTerms, FakeChannels, PRICE } from '../../../test/support/channel-buyer.ts'
import { agentId, signed } from '../../../test/support/payments.ts'
import { until } from '../../../test/support/until.ts'
import { TestSeller, told } from '../../../test/support/x402-seller.ts'
import { type Database, openDatabase } from '../../store/database.ts'
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

test('a call on a channel ends at once and has not begun, and is taken when the ledger can be written', async () => {
  const chain = new FakeChannels()
  const real = openDatabase({ path: ':memory:' })
  let isFull = false
  const commit: Database['commit'] = (...change) =>
    isFull ? Promise.reject(new StoreError('STORE_WRITE_FAILED', 'the disk is full')) : real.commit(...change)
  const channels = { reader: chain, ...channelTerms }
  const seller = await new TestSeller({ channels, database: { ...real, commit } }).start()
  onTestFinished(() => seller.stop())
  const buyer = new ChannelBuyer()
  chain.set(buyer.id, 10n * PRICE)
  const peer = await seller.connect()
  const call = (calls: bigint) => buyer.call(peer, calls * PRICE).then(told)
  expect(await call(1n)).toBe('re: task')
  isFull = true
  expect([await call(2n), await call(2n)]).toEqual(['OVERLOADED', 'OVERLOADED'])
  isFull = false
  await until(async () => (await call(2n)) === 're: task')
  expect(seller.runs).toHaveLength(2)
  expect((await seller.records.sellerChannels.take(buyer.id))?.channel.charged).toBe(2n * PRICE)
})
