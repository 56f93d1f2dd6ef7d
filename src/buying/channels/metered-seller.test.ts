import { expect, test } from 'vitest'
import { channelMarket } from '../../../test/support/channel-market.ts'
import { until } from '../../../test/support/until.ts'
import { receiptRecord } from '../../ledger/receipts.ts'
import { CHANNEL_SCHEME } from '../../schema/channel.ts'
import type { Pricing } from '../../schema/pricing.ts'
import { ReceiptRecord } from '../../schema/receipt-record.ts'
import { createReceiptStore } from '../../store/receipts.ts'

const MAX = 5_000n
const pricing: Pricing = { per_call: 100n, per_1k_input_tokens: 1_000n, per_1k_output_tokens: 4_000n, max: MAX }
const agent = { amount: MAX, pricing, isOnChannelsOnly: true } as const
const listing = { price: MAX, price_atomic: `${MAX}`, pricing, schemes: [CHANNEL_SCHEME] }

test('ADR-37 a call to an agent that is sold on channels only waits for the deposit, and both books have its charge', async () => {
  const { buyer, seller, opened } = await channelMarket({ agent, listing })
  seller.work = async ({ input, onUsage }) => {
    onUsage?.({ inputTokens: input.length, outputTokens: 10 })
    return `re: ${input}`
  }
  const result = await buyer.execute({ input: 'task' })
  expect(result).toMatchObject({ output: 're: task', payment: { amount_atomic: '144', settlement: 'settled' } })
  expect(result.payment?.units).toEqual({ input_tokens: 4, output_tokens: 10 })
  await Promise.all(Array.from({ length: 5 }, () => buyer.execute({ input: 'task' })))
  const { id, charged, seq, stopped } = await opened()
  expect({ charged, seq, stopped }).toEqual({ charged: 6n * 144n, seq: 6, stopped: undefined })
  expect((await seller.records.sellerChannels.take(id))!.channel).toMatchObject({ charged, seq })
  expect(await buyer.spent()).toBe(charged)
  // The receipts of both sides say what the amount is for.
  for (const database of [buyer.database, seller.database]) {
    const { items } = await createReceiptStore(database).list({ limit: 1 })
    const shown = receiptRecord(items[0]!, undefined)
    expect(shown).toMatchObject({ amount_atomic: '144', units: { input_tokens: 4, output_tokens: 10 } })
    expect(ReceiptRecord.parse(shown)).toEqual(shown)
  }
  const made = (await buyer.ledger()).map(({ reservation }) => reservation)
  expect(made[0]).toMatchObject({ amount: 144n, metered: { pricing, units: { input_tokens: 4, output_tokens: 10 } } })
})

test('ADR-37 calls that begin together, and need more than a deposit, wait for the next one', async () => {
  const { buyer, seller } = await channelMarket({ agent, listing })
  // All that a call may cost is in flight until it ends. Twenty fit into a deposit. Its seller looks for new ones every 2 s.
  seller.work = async ({ input }) => {
    seller.clock.advance(2_000)
    return `re: ${input}`
  }
  await buyer.execute({ input: 'the first opens the channel' })
  const made = Array.from({ length: 45 }, (_, at) => buyer.execute({ input: `task ${at}` }))
  const ends = await Promise.allSettled(made)
  expect(ends.filter(({ status }) => status === 'rejected')).toEqual([])
  expect(seller.runs).toHaveLength(46)
})

test('ADR-37 a deposit that was too much for a dearer agent of a seller keeps none of its others from being called', async () => {
  const { buyer, seller, offer, deposits } = await channelMarket({ agent, listing })
  seller.work = async ({ onUsage }) => {
    onUsage?.({ inputTokens: 4_900, outputTokens: 0 })
    return 'done'
  }
  await buyer.execute({ input: 'task' })
  const dear = { max: 100_000n, per_call: 100_000n }
  const channel = { ...offer, min_deposit: 950_000n }
  buyer.list({ channel, ...listing, price: 100_000n, price_atomic: '100000', pricing: dear })
  const refused = { code: 'CHANNEL_NEEDED', message: expect.stringContaining('no deposit was made') }
  await expect(buyer.execute({ input: 'task' })).rejects.toMatchObject(refused)
  buyer.list({ channel: offer, ...listing })
  for (let made = 0; deposits() < 2; made += 1) {
    expect(made).toBeLessThan(30)
    // Its seller looks for a new deposit every 2 s.
    seller.clock.advance(2_000)
    await buyer.execute({ input: 'task' })
  }
})

test('T43 D55 ADR-37 units that do not cost what is charged stop the channel: the result stays', async () => {
  const own = { ...pricing }
  const { buyer, seller, opened } = await channelMarket({ agent: { ...agent, pricing: own }, listing })
  seller.work = async ({ onUsage }) => {
    onUsage?.({ inputTokens: 4, outputTokens: 10 })
    // Agreed to the prices that the buyer has read, and charges by others.
    own.per_1k_output_tokens = 7_000n
    return 'done'
  }
  expect(await buyer.execute({ input: 'task' })).toMatchObject({ output: 'done' })
  await until(async () => (await opened()).stopped !== undefined)
  expect((await opened()).stopped).toContain('the seller charged 174 for units that cost 144 by its listing')
})

test('T2: a call on a channel never costs more than the price that its listing names', async () => {
  const { buyer, seller, opened, offer } = await channelMarket({ agent, listing })
  seller.work = async ({ onUsage }) => {
    onUsage?.({ inputTokens: 5_000, outputTokens: 10 })
    return 'done'
  }
  expect(await buyer.execute({ input: 'task' })).toMatchObject({ payment: { amount_atomic: `${MAX}` } })
  buyer.list({ channel: offer, ...listing, price: 1n, price_atomic: '1' })
  await expect(buyer.execute({ input: 'task' })).rejects.toMatchObject({
    code: 'LISTING_MISMATCH',
    message: expect.stringMatching(/costs up to 0.005 USDC, more than the price that its listing names: 0.000001 USDC/),
  })
  expect(await opened()).toMatchObject({ charged: MAX, seq: 1 })
  expect(await buyer.spent()).toBe(MAX)
})

test('ADR-37 a buyer that opens no channel gets a clear error, and signs nothing', async () => {
  const { buyer, seller } = await channelMarket({ agent, listing, mode: 'off' })
  const error = { code: 'CHANNEL_NEEDED', message: expect.stringContaining('set buyer.channels: auto') }
  await expect(buyer.execute({ input: 'task' })).rejects.toMatchObject(error)
  buyer.deps.channels = undefined
  await expect(buyer.execute({ input: 'task' })).rejects.toMatchObject({ code: 'CHANNEL_NEEDED' })
  expect(seller.runs).toHaveLength(0)
  expect(await buyer.spent()).toBe(0n)
})

test('ADR-37 a call that wants no channel gets a clear error, and signs nothing', async () => {
  const { buyer, seller } = await channelMarket({ agent, listing })
  const error = { code: 'CHANNEL_NEEDED', message: expect.stringContaining('this call wants none') }
  await expect(buyer.execute({ input: 'task', channel: 'never' })).rejects.toMatchObject(error)
  expect(seller.runs).toHaveLength(0)
  expect(await buyer.spent()).toBe(0n)
})

test('ADR-37 the limit of a call is compared with max', async () => {
  const { buyer } = await channelMarket({ agent, listing })
  const refused = { code: 'OVER_PRICE', message: expect.stringContaining('0.005 USDC') }
  await expect(buyer.execute({ input: 'task', maxPriceAtomic: MAX - 1n })).rejects.toMatchObject(refused)
})
