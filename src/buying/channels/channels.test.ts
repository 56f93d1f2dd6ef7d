import { expect, onTestFinished, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { payTo, sellerWallet, testWallet } from '../../../test/support/payments.ts'
import { TestBuyer } from '../../../test/support/test-buyer.ts'
import { until } from '../../../test/support/until.ts'
import { silentLogger } from '../../lib/logger.ts'
import { NodeStopping } from '../../listings/market-error.ts'
import { PeerError } from '../../protocols/peer-error.ts'
import { createBuyerChannels } from '../../store/buyer-channels.ts'
import type { Database } from '../../store/database.ts'
import { createChannels } from './channels.ts'

const PRICE = 1_000n

const DAY_MS = 24 * 60 * 60 * 1000
const noSender = () => Promise.reject(new Error('this test has no chain'))

async function marketOf(
  seller: ChannelScript,
  options: {
    database?: Database
    dailyBudget?: bigint
    calls?: number
    price?: bigint
    minDeposit?: bigint
    mode?: 'auto' | 'always'
  } = {},
) {
  const { calls = 0, price = PRICE, minDeposit = 5_000n, mode = 'auto', ...given } = options
  const buyer = new TestBuyer({ open: seller.open, ...given })
  const store = createBuyerChannels(buyer.database)
  const channels = createChannels(
    { mode, aheadCalls: 10, depositMax: 1_000_000n, idleMs: DAY_MS },
    {
      ...{ clock: buyer.clock, logger: silentLogger, store, wallet: testWallet(), streams: buyer.streams },
      ...{ callerDid: 'did:buyer', addrsOf: () => [], sender: noSender, stats: () => ({ calls, success_rate: 1 }) },
      onChain: {
        takenOut: async ({ wanted }) => ({ amount: wanted, isWhole: true }),
        reader: seller.reader,
        chain: {
          authorizationAt: async () => ({ use: { state: 'unused' }, timeMs: buyer.clock.now() }),
          blockTimeMs: async () => buyer.clock.now(),
        },
      },
    },
  )
  buyer.deps.channels = channels
  const terms = { receiver_authorizer: sellerWallet.channelSigner('claims').address, withdraw_delay: 900 }
  buyer.list({ price, price_atomic: `${price}`, channel: { ...terms, min_deposit: minDeposit } })
  for (const service of channels.services) await service.start()
  onTestFinished(async () => {
    for (const service of channels.services) await service.stop()
  })
  const opened = async () => (await store.list())[0]!
  const row = async () => {
    const { charged, seq, stopped, mark, early } = await opened()
    return { charged, seq, stopped, mark, early: early.size }
  }
  /** Waits for a channel that was opened by a first call, which this seller of channels alone refuses. */
  async function open(): Promise<void> {
    await buyer.execute().catch(() => {})
    await until(async () =>
      (await store.list()).some(({ deposit, onChain }) => deposit === undefined && onChain.balance > 0n),
    )
  }
  return { buyer, channels, store, open, opened, row }
}

/** An order that was signed for, and its payment. */
const signedOf = async (buyer: TestBuyer) =>
  (await buyer.ledger()).find(({ reservation }) => reservation !== undefined)!

test('a first cheap call opens a channel beside it, and the next ones are paid by it without a challenge', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, row, opened } = await marketOf(seller)
  await open()
  expect([seller.exact > 0, (await opened()).onChain.balance]).toEqual([true, 20n * PRICE])
  const result = await buyer.execute()
  expect(result).toMatchObject({
    output: 'result',
    payment: { amount_atomic: '1000', settlement: 'settled', pay_to: payTo },
  })
  await buyer.execute()
  expect(await row()).toMatchObject({ charged: 2n * PRICE, seq: 2, stopped: undefined })
  expect((await signedOf(buyer)).reservation).toMatchObject({ state: 'spent', amount: PRICE })
  expect(await buyer.spent()).toBe(2n * PRICE)
  // The terms travel until the seller has answered.
  const sent = seller.requests.filter(({ method }) => method === 'execute').slice(-2)
  expect(sent.map(({ payment }) => payment?.channel?.config !== undefined)).toEqual([true, false])
})

test('a caller can want a channel for a call that is not cheap, and none for one that is; a node can want one for all', async () => {
  const price = 20_000n
  const dear = await marketOf(new ChannelScript(price), { price })
  for (const channel of [undefined, 'auto', 'never'] as const) await dear.buyer.execute({ channel }).catch(() => {})
  expect(await dear.store.list()).toEqual([])
  await dear.buyer.execute({ channel: 'always' }).catch(() => {})
  await until(async () => (await dear.store.list()).length === 1)

  const always = await marketOf(new ChannelScript(price), { price, mode: 'always' })
  await always.buyer.execute({ channel: 'never' }).catch(() => {})
  expect(await always.store.list()).toEqual([])
  await always.open()
  expect(await always.buyer.execute()).toMatchObject({ payment: { channel_id: (await always.opened()).id } })

  const seller = new ChannelScript(PRICE)
  const { buyer, open, row } = await marketOf(seller)
  await open()
  const before = seller.exact
  await buyer.execute({ channel: 'never' }).catch(() => {})
  expect([seller.exact > before, seller.runs, (await row()).seq]).toEqual([true, [], 0])
})

test('a buyer without a record of the seller never signs above its calls; with a good one, ten calls ahead', async () => {
  for (const [calls, ceiling] of [
    [0, PRICE],
    [100, 11n * PRICE],
  ] as const) {
    const seller = new ChannelScript(PRICE)
    const { buyer, open } = await marketOf(seller, { calls })
    await open()
    await buyer.execute()
    expect(seller.highest).toBe(ceiling)
  }
})

test('64 calls at once share vouchers, fit a budget to the unit, and one more does not', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, row, opened } = await marketOf(seller, { dailyBudget: 10n * PRICE, minDeposit: 64n * PRICE })
  await open()
  const ended = await Promise.allSettled(Array.from({ length: 64 }, () => buyer.execute()))
  const bought = ended.filter(({ status }) => status === 'fulfilled')
  const reasons = ended.flatMap((end) => (end.status === 'rejected' ? [end.reason.code] : []))
  expect(bought).toHaveLength(10)
  expect(new Set(reasons)).toEqual(new Set(['OVER_BUDGET']))
  expect(await row()).toMatchObject({ charged: 10n * PRICE, seq: 10, stopped: undefined })
  expect(await buyer.spent()).toBe(10n * PRICE)
  expect(seller.highest).toBeLessThanOrEqual((await opened()).mark)
})

test('calls that begin together share one voucher', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open } = await marketOf(seller)
  await open()
  const before = seller.requests.length
  await Promise.all(Array.from({ length: 20 }, () => buyer.execute()))
  const vouchers = seller.requests.slice(before).map(({ payment }) => payment?.channel?.voucher.maxClaimableAmount)
  expect([vouchers.length, new Set(vouchers)]).toEqual([20, new Set([20n * PRICE])])
})

test('a lost answer is asked for, and charged once', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, row } = await marketOf(seller)
  await open()
  seller.faults.push({ lost: true })
  expect(await buyer.execute()).toMatchObject({ output: 'result' })
  expect(seller.runs).toHaveLength(1)
  expect(await row()).toMatchObject({ charged: PRICE, seq: 1 })
})

test('a call that the seller never saw is sent again under the same id', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, row } = await marketOf(seller)
  await open()
  seller.faults.push({ deaf: true })
  expect(await buyer.execute()).toMatchObject({ output: 'result' })
  expect(seller.runs).toHaveLength(1)
  expect(await row()).toMatchObject({ charged: PRICE, seq: 1 })
})

test('a failed run costs nothing, and frees the budget and the channel', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, row, channels, opened } = await marketOf(seller)
  await open()
  await expect(buyer.execute({ input: 'fail' })).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
  expect(await row()).toMatchObject({ charged: 0n, seq: 0, stopped: undefined })
  expect(await buyer.spent()).toBe(0n)
  expect(channels.line((await opened()).id)!.channel.inFlight.size).toBe(0)
  expect((await signedOf(buyer)).reservation?.state).toBe('released')
})

test.each([
  ['overstates a charge', { charge: () => ({ amount: PRICE + 1n, total: PRICE + 1n, seq: 1 }) }],
  ['overstates its sum', { charge: () => ({ amount: PRICE, total: 5n * PRICE, seq: 1 }) }],
  ['states no charge', { charge: () => undefined }],
])('a seller that %s is not paid ahead any more, and its result is kept', async (_, fault) => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, row, channels, opened } = await marketOf(seller)
  await open()
  seller.faults.push(fault)
  // What is more than was asked is not owed, and is not shown as paid.
  expect(await buyer.execute()).toMatchObject({ output: 'result', payment: { amount: '0.001' } })
  expect((await row()).stopped).toContain('the seller')
  // The call is over: what is left need not wait for it before it is taken out.
  expect(channels.line((await opened()).id)!.isQuiet).toBe(true)
  expect(await buyer.spent()).toBe(PRICE)
  const before = seller.runs.length
  await buyer.execute().catch(() => {})
  expect(seller.runs).toHaveLength(before)
})

test('a call that the channel cannot pay is paid for by itself, and never twice', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, channels, opened } = await marketOf(seller)
  await open()
  const refuse = new PeerError('PAYMENT_REQUIRED', 'the deposits are used up')
  refuse.channel = { reason: 'balance' }
  seller.faults.push({ refuse })
  const before = seller.exact
  await expect(buyer.execute()).rejects.toMatchObject({ code: 'OVERLOADED' })
  expect(seller.exact).toBeGreaterThan(before)
  expect(await buyer.spent()).toBe(0n)
  expect(channels.line((await opened()).id)!.channel.inFlight.size).toBe(0)
})

test('a deposit that the chain does not show is signed once, and nothing is paid by it', async () => {
  const seller = new ChannelScript(PRICE)
  seller.isSlow = true
  const { buyer, opened, channels } = await marketOf(seller)
  await buyer.execute().catch(() => {})
  await until(() => seller.requests.filter(({ method }) => method === 'deposit').length >= 2)
  await buyer.execute().catch(() => {})
  const sent = seller.requests.flatMap(({ payment }) => payment?.channel?.deposit?.authorization.signature ?? [])
  expect(new Set(sent).size).toBe(1)
  expect(seller.runs).toEqual([])
  expect(channels.line((await opened()).id)!.free).toBe(0n)
  // The smallest voucher is all that this node risks before the deposit.
  expect((await opened()).mark).toBe(1n)
})

test('after a restart a call in flight is asked for, counted once, and the mark counts as signed', async () => {
  const seller = new ChannelScript(PRICE)
  const first = await marketOf(seller, { calls: 100 })
  await first.open()
  seller.faults.push({ lost: true })
  const leaving = new AbortController()
  // The process ends while the call is under way: nothing of its end is stored.
  first.buyer.deps.purchases = { ...first.buyer.purchases, finish: () => new Promise(() => {}) }
  void first.buyer.execute({ signal: leaving.signal }).catch(() => {})
  await until(() => seller.runs.length === 1 && seller.requests.at(-1)?.method === 'result')
  const { database } = first.buyer
  const second = await marketOf(seller, { database, calls: 100 })
  await second.buyer.recovery.start()
  onTestFinished(() => second.buyer.recovery.stop())
  await until(async () => (await signedOf(second.buyer)).order.status === 'completed')
  expect(await second.row()).toMatchObject({ charged: PRICE, seq: 1, stopped: undefined })
  const line = second.channels.line((await second.opened()).id)!
  expect([line.channel.signed, line.channel.inFlight.size]).toEqual([11n * PRICE, 0])
  expect(await second.buyer.spent()).toBe(PRICE)
  expect(await second.buyer.execute()).toMatchObject({ output: 'result' })
  expect(await second.row()).toMatchObject({ charged: 2n * PRICE, seq: 2 })
})

test.each([
  ['is over', { days: 1, elsewhere: false, status: 'failed', state: 'released', spent: 0n }],
  [
    'another process may still send',
    { days: 0, elsewhere: true, status: 'executing', state: 'reserved', spent: PRICE },
  ],
] as const)('a call that %s, and that its seller never saw, is not sent again', async (_, expected) => {
  const seller = new ChannelScript(PRICE)
  const first = await marketOf(seller)
  await first.open()
  seller.faults.push(...Array.from({ length: 100 }, () => ({ deaf: true })))
  const ending = new AbortController()
  const left = first.buyer.execute({ cancel: ending.signal }).catch(() => {})
  await until(() => seller.faults.length < 100)
  ending.abort(new NodeStopping())
  await left
  seller.faults.length = 0
  const { database } = first.buyer
  const { buyer, row, channels, opened } = await marketOf(seller, { database })
  buyer.clock.advance(expected.days * 86_400_000)
  buyer.purchases.maySendElsewhere = async () => expected.elsewhere
  await channels.load()
  await buyer.recovery.look((await signedOf(buyer)).order.id)
  expect(await signedOf(buyer)).toMatchObject({
    order: { status: expected.status },
    reservation: { state: expected.state },
  })
  expect(seller.runs).toEqual([])
  expect(await row()).toMatchObject({ charged: 0n, seq: 0, stopped: undefined })
  const inFlight = channels.line((await opened()).id)!.channel.inFlight.size
  expect([await buyer.spent(), inFlight]).toEqual([expected.spent, expected.state === 'reserved' ? 1 : 0])
})
