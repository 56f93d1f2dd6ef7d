import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { madePayment } from '../../src/ledger/payment-record.ts'
import { adoptStatement, countIntoSums, reopenAtBuyer } from '../../src/payments/channels/buyer-channel.ts'
import type { Charge } from '../../src/schema/channel.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { type BuyerChannels, createBuyerChannels, type StoredChannel } from '../../src/store/buyer-channels.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createPurchases, type Order, type Purchases, type Reservation } from '../../src/store/purchases.ts'
import { channelsSince as now, payingChannelOf } from '../support/buyer-channels.ts'
import { asEnded, onBothEngines } from '../support/ledgers.ts'
import { agentId, randomHex, requirements, testWallet, usdc } from '../support/payments.ts'

const day = '2026-01-01'
const ASKED = 1_000n
let database: LedgerDatabase
let purchases: Purchases
let channels: BuyerChannels

async function opened(changes: Partial<StoredChannel> = {}, store = channels): Promise<StoredChannel> {
  const channel = payingChannelOf(changes)
  expect(await store.putDeposit(channel, () => true)).toBe(true)
  return channel
}

function callOn(channel: Hex): { order: Order; reservation: Reservation } {
  const order: Order = {
    ...{ id: randomUUID(), agentId, sellerId: 'seller', price: ASKED, status: 'executing', task: 'task' },
    ...{ output: undefined, error: undefined, correlationId: randomUUID(), createdAt: now, updatedAt: now },
  }
  const { network } = usdc
  const server_nonce = 'preemptive'
  const payer = testWallet().address
  const envelope = { x402_version: 2, scheme: 'batch-settlement', network, server_nonce, payer } as const
  const asked = { requirements: requirements({ amount: ASKED }), envelope, amount: ASKED }
  const validBeforeSeconds = now / 1000 + 240
  const names = { paymentId: randomHex(), orderId: order.id, agentId, sellerId: 'seller' }
  return { order, reservation: { ...names, ...asked, validBeforeSeconds, channel } }
}

async function called(channel: Hex, store = purchases) {
  const call = callOn(channel)
  expect(await store.reserve(call.order, call.reservation, { day, limits: () => ({ day: 1_000_000n }) })).toBe(
    'reserved',
  )
  return call
}

const finish = (
  { order, reservation: { paymentId } }: Awaited<ReturnType<typeof called>>,
  charge: Charge | undefined,
) =>
  purchases.finish(
    { ...order, status: 'completed', output: 'result' },
    {
      paymentId,
      amount: ASKED,
      txHash: undefined,
      onChannel: { charge, count: (sums, asked) => countIntoSums(sums, { call: paymentId, asked, charge }) },
    },
  )
const sumsOf = async (id: Hex) => {
  const { charged, seq, early, inFlight, stopped } = (await channels.get(id))!
  return { charged, seq, early: [...early.keys()], inFlight: inFlight.size, stopped }
}

onBothEngines((open) => {
  beforeEach(async () => {
    database = await open()
    purchases = createPurchases(database)
    channels = createBuyerChannels(database)
  })

  test('ADR-37 a metered call keeps the prices that it was bought under, and shows what it has used', async () => {
    const { id } = await opened()
    const pricing = { per_call: 10n, per_1k_output_tokens: 2_000n, max: ASKED }
    const call = callOn(id)
    const reservation = { ...call.reservation, metered: { pricing } }
    await purchases.reserve(call.order, reservation, { day, limits: () => ({}) })
    expect((await purchases.reservationOf(call.order.id))?.metered).toEqual({ pricing })
    const charge = { amount: 50n, total: 50n, seq: 1, units: { output_tokens: 20 }, cut: true as const }
    await finish(call, charge)
    const made = (await purchases.reservationOf(call.order.id))!
    expect(made).toMatchObject({ amount: 50n, metered: { pricing, units: { output_tokens: 20 }, cut: true } })
    expect(madePayment(made, () => undefined)).toMatchObject({
      ...{ amount_atomic: '50', units: { output_tokens: 20 }, cut: true, book: 'paid' },
    })
  })

  test('a channel reads back as it was, with a deposit under way and amounts of 39 digits', async () => {
    const amount = 2n ** 128n - 1n
    const signed = { validAfter: 1n, validBefore: 2n, salt: randomHex(), signature: randomHex(65), balanceBefore: 0n }
    const withdrawal = { amount, initiatedAt: 7 }
    const onChain = { balance: amount, totalClaimed: 3n, withdrawal, refundNonce: 4n }
    const early = new Map([[3, { amount: 1n, total: 9n, seq: 3, call: randomHex() }]])
    const channel = await opened({ onChain, mark: amount, early, deposit: { amount, ...signed }, tokenIds: ['one'] })
    const inFlight = new Map([[early.get(3)!.call, 1n]])
    expect(await channels.ofProcess()).toEqual([{ ...channel, inFlight }])
    const changed = { onChain: { ...onChain, withdrawal: undefined }, moved: { in: amount, out: 7n } }
    await channels.seen(channel.id, changed, now)
    // A deposit may be stored while the chain is read.
    expect(await channels.list()).toEqual([{ ...channel, ...changed }])
    await channels.depositEnded(channel.id, changed, now)
    expect(await channels.list()).toEqual([{ ...channel, ...changed, deposit: undefined }])
  })

  test('a channel keeps the tokens whose calls have asked for its deposits', async () => {
    const { deposit: _, ...first } = await opened({ tokenIds: ['one'] })
    for (const tokenIds of [['two'], [], ['one', 'three']]) {
      await channels.putDeposit({ ...first, deposit: undefined, tokenIds }, () => true)
    }
    expect(await channels.list()).toEqual([{ ...first, deposit: undefined, tokenIds: ['one', 'two', 'three'] }])
  })

  test('a deposit that the rules forbid is not stored', async () => {
    const first = await opened()
    const isAllowed = (all: readonly StoredChannel[]) => all.length === 0
    expect(await channels.putDeposit(payingChannelOf(), isAllowed)).toBe(false)
    expect((await channels.list()).map(({ id }) => id)).toEqual([first.id])
  })

  test('a call is in flight until its charge, which its order, its reservation, the budget and the channel get at once', async () => {
    const { id } = await opened()
    const call = await called(id)
    expect(await purchases.spentOn(day)).toBe(ASKED)
    expect([...(await channels.get(id))!.inFlight]).toEqual([[call.reservation.paymentId, ASKED]])
    await finish(call, { amount: 300n, total: 300n, seq: 1 })
    expect(await sumsOf(id)).toEqual({ charged: 300n, seq: 1, early: [], inFlight: 0, stopped: undefined })
    expect(await purchases.spentOn(day)).toBe(300n)
    expect((await purchases.spendingOn(day)).held.day).toBe(0n)
    expect(await purchases.order(call.order.id)).toMatchObject({ status: 'completed', output: 'result' })
    const spent = { state: 'spent', amount: 300n, channel: id, confirmation: 'chain', txHash: undefined }
    expect(await purchases.reservationOf(call.order.id)).toMatchObject(spent)
    for (const list of ['reserved', 'unconfirmed', 'unnamed', 'unreceived'] as const) {
      expect(await purchases.open(list, { network: usdc.network, limit: 10 })).toEqual([])
    }
  })

  test('a result that comes twice is counted once', async () => {
    const { id } = await opened()
    const call = await called(id)
    for (const _ of [1, 2]) await finish(call, { amount: ASKED, total: ASKED, seq: 1 })
    expect(await sumsOf(id)).toMatchObject({ charged: ASKED, seq: 1, stopped: undefined })
    expect(await purchases.spentOn(day)).toBe(ASKED)
  })

  test('results that end at once are each counted, in whatever order they are stored', async () => {
    const { id } = await opened()
    const calls = await Promise.all(Array.from({ length: 24 }, () => called(id)))
    const charges = calls.map((_, index) => ({ amount: 10n, total: 10n * BigInt(index + 1), seq: index + 1 }))
    const order = calls.map((_, index) => (index * 7) % calls.length)
    // One of them comes twice.
    await Promise.all([...order, order[3]!].map((index) => finish(calls[index]!, charges[index])))
    expect(await sumsOf(id)).toEqual({ charged: 240n, seq: 24, early: [], inFlight: 0, stopped: undefined })
    expect(await purchases.spentOn(day)).toBe(240n)
  })

  test('a channel that stops while results are stored stays stopped, and a mark never falls', async () => {
    const { id } = await opened()
    const [first, second] = [await called(id), await called(id)]
    const marks = [9n, 100_000n, 20_001n].map((mark) => channels.raiseMark(id, mark))
    await Promise.all([
      ...[...marks, finish(first, { amount: 10n, total: 10n, seq: 1 }), channels.stop(id, 'why', now)],
      finish(second, { amount: 10n, total: 20n, seq: 2 }),
    ])
    expect(await sumsOf(id)).toMatchObject({ charged: 20n, seq: 2, stopped: 'why' })
    expect((await channels.get(id))!.mark).toBe(100_000n)
  })

  test('what a seller proves is taken over beside the charges on disk, and lowers no mark', async () => {
    const { id, config } = await opened()
    const [early, late] = [await called(id), await called(id)]
    await finish(early, { amount: 500n, total: 30_500n, seq: 5 })
    const signature = randomHex(65)
    const voucher = { channelId: id, maxClaimableAmount: 35_000n, signature }
    const statement = { charged: 30_000n, seq: 4, voucher }
    // The mark rises after the statement has come. What is counted next is stored in the same turn.
    const take = (channel: StoredChannel) =>
      adoptStatement(reopenAtBuyer({ ...channel, inFlight: new Map() }), statement, 20_000n)
    await Promise.all([
      channels.raiseMark(id, 40_000n),
      channels.adopt(id, take),
      finish(late, { amount: 700n, total: 31_200n, seq: 6 }),
    ])
    expect(await sumsOf(id)).toEqual({ charged: 31_200n, seq: 6, early: [], inFlight: 0, stopped: undefined })
    expect(await channels.get(id)).toMatchObject({ mark: 40_000n, statedSeq: 4, config })
    expect(await channels.adopt(id, take)).toBe(false)
  })

  test('a charge that comes early waits on disk for the one before it', async () => {
    const { id } = await opened()
    const [first, second] = [await called(id), await called(id)]
    await finish(second, { amount: 500n, total: 900n, seq: 2 })
    expect(await sumsOf(id)).toEqual({ charged: 0n, seq: 0, early: [2], inFlight: 2, stopped: undefined })
    await finish(first, { amount: 400n, total: 400n, seq: 1 })
    expect(await sumsOf(id)).toEqual({ charged: 900n, seq: 2, early: [], inFlight: 0, stopped: undefined })
    expect(await purchases.spentOn(day)).toBe(900n)
  })

  test('charges that come together are all counted, in whatever order they come', async () => {
    const { id } = await opened()
    const calls = await Promise.all(Array.from({ length: 20 }, () => called(id)))
    const charges = calls.map((_, index) => ({ amount: 100n, total: 100n * BigInt(index + 1), seq: index + 1 }))
    await Promise.all(calls.map((_, at) => finish(calls.at(-1 - at)!, charges.at(-1 - at))))
    expect(await sumsOf(id)).toEqual({ charged: 2_000n, seq: 20, early: [], inFlight: 0, stopped: undefined })
    expect(await purchases.spentOn(day)).toBe(2_000n)
  })

  test('of calls that end together one that cannot be stored fails alone, and one that comes twice counts once', async () => {
    const { id } = await opened()
    const [good, gone] = [await called(id), callOn(id)]
    const charge = { amount: 300n, total: 300n, seq: 1 }
    const ends = await Promise.allSettled([finish(good, charge), finish(gone, charge), finish(good, charge)])
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await sumsOf(id)).toEqual({ charged: 300n, seq: 1, early: [], inFlight: 0, stopped: undefined })
    expect(await purchases.order(gone.order.id)).toBeUndefined()
    expect(await purchases.spentOn(day)).toBe(300n)
  })

  test.each([
    ['more than was asked', { amount: ASKED + 1n, total: ASKED + 1n, seq: 1 }],
    ['a sum that is not that of the charges', { amount: 1n, total: 2n, seq: 1 }],
    ['no charge', undefined],
  ])('a result with %s is kept, and its channel stops', async (_, charge) => {
    const { id } = await opened()
    await finish(await called(id), charge)
    expect((await sumsOf(id)).stopped).toContain('the seller')
    expect(await purchases.spentOn(day)).toBe(charge?.amount === 1n ? 1n : ASKED)
  })

  test('a call that was given up and is charged after all counts again', async () => {
    const { id } = await opened()
    const call = await called(id)
    await purchases.resolve(call.reservation, 'released', undefined, now)
    expect(await purchases.spentOn(day)).toBe(0n)
    expect(await purchases.looksDue(now + 1e12, 10, usdc.network)).toEqual([])
    await finish(call, { amount: 700n, total: 700n, seq: 1 })
    expect(await purchases.spentOn(day)).toBe(700n)
    expect(await sumsOf(id)).toMatchObject({ charged: 700n, seq: 1, stopped: undefined })
  })

  test('a call whose answer nobody has any more counts as spent, and stops its channel', async () => {
    const { id } = await opened()
    const call = await called(id)
    await purchases.giveUpCall(call.reservation, 'no answer', now)
    expect(await sumsOf(id)).toMatchObject({ inFlight: 0, stopped: 'no answer' })
    expect(await purchases.spentOn(day)).toBe(ASKED)
  })

  test('an order whose call the seller refused is paid for in another way, and counts once', async () => {
    const { id } = await opened()
    const { order, reservation } = await called(id)
    const other = { ...reservation, paymentId: randomHex(), channel: undefined, amount: 2_000n }
    const signed = testWallet().authorize(
      requirements({ amount: 2_000n }),
      { serverNonce: randomHex(), authorizationNonce: randomHex() },
      now,
    )
    const exact = { ...other, requirements: requirements({ amount: 2_000n }), envelope: signed.envelope }
    const allowance = { day, limits: () => ({ day: 2_500n }) }
    expect(await purchases.reserve(order, exact, allowance)).toBe('again')
    expect(await purchases.reserve(order, exact, { ...allowance, instead: reservation.paymentId })).toBe('reserved')
    expect(await purchases.spentOn(day)).toBe(2_000n)
    expect((await channels.get(id))!.inFlight.size).toBe(0)
    expect((await purchases.reservationOf(order.id))?.channel).toBeUndefined()
  })

  test('a channel that is left keeps why and how, whoever notes how far it is, and takes no deposit', async () => {
    const channel = await opened()
    const { id } = channel
    const leaving = { why: 'asked', way: 'refund', since: now } as const
    expect(await channels.leave(id, () => leaving, now)).toMatchObject({ leaving })
    const trouble = { step: 'refund', reason: '123n', count: 1 } as const
    await channels.noteExit(id, { askedAt: now + 1 }, now)
    await channels.leave(id, (one) => ({ ...one.leaving!, way: 'withdraw' }), now)
    await channels.noteExit(id, { trouble }, now)
    expect((await channels.get(id))!.leaving).toEqual({ ...leaving, way: 'withdraw', askedAt: now + 1, trouble })
    let seen: StoredChannel | undefined
    await channels.putDeposit(channel, ([one]) => {
      seen = one
      return false
    })
    expect(seen?.leaving?.why).toBe('asked')
    await channels.close(id, now + 2)
    expect((await channels.get(id))!.closedAt).toBe(now + 2)
    expect(await channels.ofProcess(now + 3)).toEqual([])
    expect((await channels.ofProcess(now)).map((one) => one.id)).toEqual([id])
    // Money came back: it is left again.
    await channels.leave(id, () => leaving, now)
    expect((await channels.get(id))!.closedAt).toBeUndefined()
    expect(await channels.leave(randomHex(), () => leaving, now)).toBeUndefined()
  })

  test('the heir of a process takes over its channels and their calls in flight', async () => {
    const gone = asEnded(database)
    const { id } = await opened({}, createBuyerChannels(gone))
    const call = await called(id, createPurchases(gone))
    expect(await channels.ofProcess()).toEqual([])
    await purchases.takeOver(now)
    const [taken] = await channels.ofProcess()
    expect([taken?.id, taken?.inFlight.size]).toEqual([id, 1])
    const open = await purchases.open('reserved', { network: usdc.network, limit: 10 })
    expect(open.map(({ orderId }) => orderId)).toEqual([call.order.id])
  })

  test('a call goes to no other process than its channel', async () => {
    const gone = asEnded(database)
    const { id } = await opened()
    const call = await called(id, createPurchases(gone))
    const other = { ...database, process: 'another heir' }
    await createPurchases(other).takeOver(now)
    expect(await purchases.open('reserved', { network: usdc.network, limit: 10 })).toEqual([])
    await purchases.takeOver(now)
    const open = await purchases.open('reserved', { network: usdc.network, limit: 10 })
    expect(open.map(({ orderId }) => orderId)).toEqual([call.order.id])
  })
})
