import { streamPair } from '@libp2p/utils'
import { expect, onTestFinished, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { scriptedMarket, testTerms } from '../../../test/support/scripted-market.ts'
import { until } from '../../../test/support/until.ts'
import { EARLY_MAX } from '../../payments/channels/buyer-channel.ts'
import type { Charge } from '../../payments/channels/seller-channel.ts'
import { FramedStream } from '../../protocols/framed-stream.ts'
import { readMessage } from '../../protocols/x402/messages.ts'
import type { ChannelTerms } from '../../schema/channel.ts'

const PRICE = 1_000n
const MINUTE_MS = 60_000
const shifted = (charge: Charge) => ({ ...charge, seq: charge.seq + 1 })

test('hazard 4.11: a seller that claims more than its calls have cost is not paid ahead any more', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored, line: lineOf } = await scriptedMarket(seller, { price: PRICE, calls: 100 })
  await open()
  await buyer.execute()
  const line = await lineOf()
  const { onChain } = line.channel
  line.seen({ ...onChain, totalClaimed: PRICE })
  expect(line.channel.stopped).toBeUndefined()
  // The voucher covers ten calls ahead, and the contract would take all of it.
  line.seen({ ...onChain, totalClaimed: 11n * PRICE })
  await until(async () => (await stored()).stopped !== undefined)
  expect((await stored()).stopped).toBe('the seller has claimed 11000, and its calls cost 1000 at most')
  const before = seller.runs.length
  await buyer.execute().catch(() => {})
  expect(seller.runs).toHaveLength(before)
})

test('hazard 4.11: a claim of a call that has not been answered yet is in order', async () => {
  const seller = new ChannelScript(PRICE)
  const { open, line: lineOf } = await scriptedMarket(seller, { price: PRICE })
  await open()
  const line = await lineOf()
  const call = `0x${'a1'.repeat(32)}` as const
  await line.pay({ id: call, asked: PRICE, ahead: 0n, reserve: async () => {} })
  line.seen({ ...line.channel.onChain, totalClaimed: PRICE })
  expect(line.channel.stopped).toBeUndefined()
  line.count(call, { asked: PRICE, charge: { amount: PRICE, total: PRICE, seq: 1 } }, 0)
  expect([line.channel.charged, line.channel.stopped]).toEqual([PRICE, undefined])
})

test('hazard 4.11: a claim for a call that then costs nothing stops the channel, although the chain shows nothing new', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored, line: lineOf } = await scriptedMarket(seller, { price: PRICE })
  await open()
  const line = await lineOf()
  const call = `0x${'a1'.repeat(32)}` as const
  await line.pay({ id: call, asked: PRICE, ahead: 0n, reserve: async () => {} })
  seller.claimed.set(line.id, PRICE)
  buyer.clock.advance(MINUTE_MS)
  await until(() => line.channel.onChain.totalClaimed === PRICE)
  expect(line.channel.stopped).toBeUndefined()
  line.drop(call)
  buyer.clock.advance(MINUTE_MS)
  await until(async () => (await stored()).stopped !== undefined)
})

test('hazard 4.11: a seller that leaves a number out makes the buyer keep a bounded number of charges, and is not paid on', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored, line: lineOf } = await scriptedMarket(seller, { price: PRICE, calls: 2 * EARLY_MAX })
  await open()
  const line = await lineOf()
  const balance = 2n * BigInt(EARLY_MAX) * PRICE
  seller.chain.set(line.id, balance)
  line.seen({ ...line.channel.onChain, balance })
  const before = seller.exact
  // The charge with the number 1 never comes.
  seller.faults.push(...Array.from({ length: EARLY_MAX + 20 }, () => ({ charge: shifted })))
  for (let made = 0; made < EARLY_MAX + 10; made += 1) await buyer.execute().catch(() => {})
  const { early, charged, stopped } = await stored()
  expect([early.size, charged, stopped]).toEqual([EARLY_MAX, 0n, undefined])
  // The next ones are paid for by themselves, as far as their seller takes that.
  expect(seller.runs).toHaveLength(EARLY_MAX)
  expect(seller.exact).toBeGreaterThan(before)
})

test('hazard 4.11: a charge that waits for an earlier one is owed as it is stated, so a claim of more stops the channel', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored, line: lineOf } = await scriptedMarket(seller, { price: PRICE })
  await open()
  const line = await lineOf()
  // The call costs next to nothing, and the charge with the number 1 never comes.
  seller.faults.push({ charge: (charge) => ({ ...shifted(charge), amount: 1n }) })
  await buyer.execute()
  expect(line.free).toBe(line.channel.onChain.balance - 1n)
  const { onChain } = line.channel
  line.seen({ ...onChain, totalClaimed: 1n })
  expect(line.channel.stopped).toBeUndefined()
  // The voucher covers the price.
  line.seen({ ...onChain, totalClaimed: PRICE })
  await until(async () => (await stored()).stopped !== undefined)
})

test('hazard 4.15: a channel that was emptied and is filled again goes on above all that was ever signed for it', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored, line: lineOf } = await scriptedMarket(seller, { price: PRICE, calls: 100 })
  await open()
  await buyer.execute()
  const line = await lineOf()
  // The seller has claimed, and a withdrawal has taken the rest. Its voucher for ten calls more is still there.
  const empty = { ...line.channel.onChain, balance: PRICE, totalClaimed: PRICE }
  line.seen(empty)
  expect(line.free).toBe(0n)
  line.seen({ ...empty, balance: 40n * PRICE })
  seller.chain.set(line.id, 40n * PRICE)
  await buyer.execute()
  expect([(await stored()).charged, seller.highest]).toEqual([2n * PRICE, 11n * PRICE])
  // What it risks is still counted from the highest voucher that the seller may have.
  expect(line.channel.signed).toBe(11n * PRICE)
})

test('hazard 4.23: a seller that changes its terms again and again gets no more than one seller may hold', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, store, list } = await scriptedMarket(seller, { price: PRICE })
  let keys = 10
  const offer = async (channel: Partial<ChannelTerms>) => {
    const receiver_authorizer = `0x${`${keys++}`.repeat(20)}` as const
    list({ ...testTerms, receiver_authorizer, min_deposit: 400_000n, ...channel })
    await buyer.execute({ channel: 'always' }).catch(() => {})
    await until(async () => (await store.list()).every(({ deposit }) => deposit === undefined))
  }
  // A delay of more than a day and a deposit of more than is allowed are refused.
  await offer({ withdraw_delay: 86_401 })
  await offer({ min_deposit: 1_000_001n })
  for (let key = 0; key < 5; key += 1) {
    await offer({})
    buyer.clock.advance(11 * 60_000)
  }
  const deposits = (await store.list()).map(({ onChain }) => onChain.balance)
  expect(deposits).toEqual([400_000n, 400_000n])
})

test('hazard 4.3: the result of a call is asked for although a withdrawal leaves nothing that covers it', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored, line: lineOf } = await scriptedMarket(seller, { price: PRICE })
  await open()
  const line = await lineOf()
  seller.faults.push({ lost: true })
  const bought = buyer.execute()
  await until(() => seller.runs.length === 1)
  const { onChain } = line.channel
  line.seen({ ...onChain, withdrawal: { amount: onChain.balance, initiatedAt: 1 } })
  expect(line.free).toBeLessThan(0n)
  expect(await bought).toMatchObject({ output: 'result' })
  expect((await stored()).charged).toBe(PRICE)
})

/** A seller that takes requests and answers none. `asked`: the methods of its requests. */
function muteSeller() {
  const ending = new AbortController()
  const asked: string[] = []
  onTestFinished(() => ending.abort(new Error('the test is over')))
  async function open() {
    const [ours, theirs] = await streamPair({ protocol: '/test' })
    const stream = new FramedStream(theirs)
    const listen = async () => {
      for (;;) {
        const read = await readMessage(stream, ending.signal)
        if (read?.type === 'x402.request') asked.push(read.message.method)
      }
    }
    listen().catch((error: Error) => theirs.abort(error))
    return ours
  }
  return { open, asked, ending }
}

test('a seller that answers nothing about its deposit does not hold the deposits at others', async () => {
  const seller = new ChannelScript(PRICE)
  const mute = muteSeller()
  const open = (peer?: { peerId: string }) => (peer?.peerId === 'mute' ? mute.open() : seller.open())
  const { buyer, store } = await scriptedMarket({ open, reader: seller.reader }, { price: PRICE })
  const price = { price: PRICE, price_atomic: `${PRICE}` }
  buyer.list({ id: 'mute', seller_id: 'mute', channel: testTerms, ...price })
  const unanswered = buyer.execute({ agentId: 'mute', signal: mute.ending.signal }).catch(() => {})
  await until(() => mute.asked.includes('deposit'))
  await buyer.execute().catch(() => {})
  const hasLanded = async () =>
    (await store.list()).some(({ sellerId, onChain }) => sellerId === 'seller' && onChain.balance > 0n)
  await until(hasLanded)
  expect(mute.asked.filter((method) => method === 'deposit')).toHaveLength(1)
  mute.ending.abort(new Error('the test is over'))
  await unanswered
})

test('T7: a seller that answers nothing about its deposit does not keep the node from stopping', async () => {
  const { reader } = new ChannelScript(PRICE)
  const mute = muteSeller()
  const { buyer, channels, stored } = await scriptedMarket({ open: mute.open, reader }, { price: PRICE })
  const leaving = new AbortController()
  const unanswered = buyer.execute({ signal: leaving.signal }).catch(() => {})
  await until(() => mute.asked.includes('deposit'))
  leaving.abort(new Error('the caller leaves'))
  await unanswered
  for (const service of channels.services) await service.stop()
  // It is on disk, and the next start goes on with it.
  expect((await stored()).deposit?.amount).toBeGreaterThan(0n)
}, 10_000)
