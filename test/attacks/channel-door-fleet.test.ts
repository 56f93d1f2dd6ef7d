/** T42: channels over HTTP at two processes of a seller, and strangers who have read old vouchers on the chain. */
import { expect, onTestFinished, test, vi } from 'vitest'
import { momentOf } from '../../src/lib/clock.ts'
import { ChannelDoor } from '../../src/protocols/doors/channel-door.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { all } from '../../src/store/query.ts'
import { ChannelBuyer, channelTerms, FakeChannels, PRICE } from '../support/channel-buyer.ts'
import { openShared } from '../support/ledgers.ts'
import { agentId, usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { TestSeller } from '../support/x402-seller.ts'

const DEPOSIT = 100n * PRICE

async function doorOn(ledger: LedgerDatabase, chain: FakeChannels) {
  const seller = await new TestSeller({ ledger, channels: { reader: chain, ...channelTerms } }).start()
  onTestFinished(() => seller.stop())
  const channels = seller.deps.channels!
  return { seller, channels, door: new ChannelDoor({ ...seller.deps, channels }) }
}

/** Two processes of a seller. The first has the channel, on which one call was charged. */
async function openFleet() {
  const ledgers = await openShared(2)
  const [chain, buyer] = [new FakeChannels(), new ChannelBuyer()]
  chain.set(buyer.id, DEPOSIT)
  const [first, second] = [await doorOn(ledgers[0]!, chain), await doorOn(ledgers[1]!, chain)]
  expect(await first.door.sell(requestOf(buyer, PRICE, 'first'))).toMatchObject({ kind: 'sold', output: 're: first' })
  /** How often a process was asked to give a channel up. */
  const asks = async () =>
    (await ledgers[0]!.query(all<{ n: number }>("SELECT count(*) AS n FROM changes WHERE record = 'channel'")))[0]!.n
  /** The first call is claimed, which shows its voucher to anybody. */
  async function claim(): Promise<void> {
    const { channels, seller } = first
    chain.set(buyer.id, DEPOSIT, { totalClaimed: PRICE })
    await channels.seen(buyer.id, chain.states.get(buyer.id)!, momentOf(seller.clock))
    const { sellerChannels } = seller.records
    await until(async () => (await sellerChannels.get(buyer.id))?.onChain.totalClaimed === PRICE)
  }
  return { buyer, first, second, asks, claim }
}

function requestOf(buyer: ChannelBuyer, ceiling: bigint, task: string, type: 'voucher' | 'refund' = 'voucher') {
  const payload = { type, channelConfig: buyer.config, voucher: buyer.voucher(ceiling) }
  return { agentId, input: task, network: usdc.network, payload, boundTo: Buffer.from(task) }
}

test('T42 who has read an old voucher on the chain does not move its channel, and keeps its payer out of nothing', async () => {
  const { buyer, first, second, asks, claim } = await openFleet()
  await claim()
  const stolen = Array.from({ length: 40 }, (_, at) => second.door.sell(requestOf(buyer, PRICE, `stolen ${at}`)))
  const kinds = async () => (await Promise.all(stolen)).map(({ kind }) => kind)
  // The payer comes to the same process while the strangers are there.
  const own = second.door.sell(requestOf(buyer, 2n * PRICE, 'own'))
  await until(async () => (await asks()) > 0)
  first.channels.wanted(buyer.id)
  expect(await own).toMatchObject({ kind: 'sold', output: 're: own' })
  expect(new Set(await kinds())).toEqual(new Set(['corrected', 'limited']))
  expect([...first.seller.runs, ...second.seller.runs].map(({ input }) => input)).toEqual(['first', 'own'])
})

test('T42 a call that was charged, and a wrong voucher, are answered without the channel', async () => {
  const { buyer, second, asks, claim } = await openFleet()
  const again = await second.door.sell(requestOf(buyer, PRICE, 'first'))
  expect(again).toMatchObject({ kind: 'sold', output: 're: first', settled: { charge: { amount: PRICE, seq: 1 } } })
  await claim()
  const corrected = await second.door.sell(requestOf(buyer, PRICE, 'other'))
  const channelState = { balance: `${DEPOSIT}`, totalClaimed: `${PRICE}`, chargedCumulativeAmount: `${PRICE}` }
  expect(corrected).toMatchObject({ kind: 'corrected', correction: { channelState } })
  const refund = await second.door.sell(requestOf(buyer, PRICE, '', 'refund'))
  expect(refund).toMatchObject({ kind: 'refused', reason: expect.stringContaining('was used in the last hour') })
  expect(await asks()).toBe(0)
})

test('a lower voucher moves a channel, after a dearer call has failed at the other process', async () => {
  const { buyer, first, second, asks } = await openFleet()
  first.seller.work = () => Promise.reject(new Error('broken'))
  expect(await first.door.sell(requestOf(buyer, 2n * PRICE, 'fails'))).toMatchObject({ kind: 'failed' })
  // The best voucher is above the next right one, as one for a dearer agent would be.
  const { sellerChannels } = first.seller.records
  const stored = (await sellerChannels.get(buyer.id))!
  expect(await sellerChannels.save({ ...stored, best: buyer.voucher(5n * PRICE) }, stored.seq)).toBe(true)
  const sold = second.door.sell(requestOf(buyer, 2n * PRICE, 'cheaper'))
  await until(async () => (await asks()) > 0)
  first.channels.wanted(buyer.id)
  expect(await sold).toMatchObject({ kind: 'sold', output: 're: cheaper', settled: { charge: { total: 2n * PRICE } } })
})

test('requests that came together wait together for a channel that another process has', async () => {
  const { buyer, first, second, asks } = await openFleet()
  const { promise, resolve } = Promise.withResolvers<string>()
  first.seller.work = () => promise
  const running = first.door.sell(requestOf(buyer, 2n * PRICE, 'slow'))
  await until(() => first.seller.runs.length === 2)
  const waiting = ['a', 'b', 'c'].map((task) => second.door.sell(requestOf(buyer, 2n * PRICE, task)))
  await until(async () => (await asks()) >= 3)
  const now = performance.now.bind(performance)
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => now() + 20_000)
  onTestFinished(() => spy.mockRestore())
  // The other process may run this very call.
  const busy = { kind: 'busy', settlement: 'unknown' }
  expect(await Promise.all(waiting)).toEqual([busy, busy, busy].map((one) => expect.objectContaining(one)))
  resolve('done')
  expect(await running).toMatchObject({ kind: 'sold', output: 'done' })
})

test('a channel that goes away again before the call begins is waited for again', async () => {
  const { buyer, first, second, asks } = await openFleet()
  const take = second.channels.take.bind(second.channels)
  let lost = 0
  vi.spyOn(second.channels, 'take').mockImplementation(async (call, signal) => {
    if (lost++ === 0) {
      // The other process has asked for it, and gets it.
      second.channels.wanted(buyer.id)
      await until(() => second.channels.owned(buyer.id) === undefined)
      expect(await first.seller.records.sellerChannels.take(buyer.id)).toMatchObject({ isOwn: true })
    }
    return take(call, signal)
  })
  const sold = second.door.sell(requestOf(buyer, 2n * PRICE, 'again'))
  await until(async () => (await asks()) > 0)
  first.channels.wanted(buyer.id)
  await until(() => lost === 1)
  const before = await asks()
  await until(async () => (await asks()) > before)
  first.channels.wanted(buyer.id)
  expect(await sold).toMatchObject({ kind: 'sold', output: 're: again', settled: { charge: { total: 2n * PRICE } } })
})
