import { expect, test } from 'vitest'
import { channelMarket } from '../../../test/support/channel-market.ts'
import { CHANNEL_SCHEME } from '../../schema/channel.ts'
import type { Listing } from '../../schema/listing.ts'
import type { Pricing } from '../../schema/pricing.ts'

const MAX = 10_000n
const pricing: Pricing = { per_1k_output_tokens: 1_000_000n, max: MAX }
const agent = { amount: MAX, pricing, isOnChannelsOnly: true } as const
const listing: Partial<Listing> = {
  price: MAX,
  price_atomic: `${MAX}`,
  pricing,
  schemes: [CHANNEL_SCHEME],
  streaming: 'owed_once_shown',
}

async function market(options: Parameters<typeof channelMarket>[0] = {}) {
  const all = await channelMarket({ agent, listing, aheadCalls: 0, streamVouchers: true, ...options })
  const { buyer, seller, opened } = all
  seller.work = async ({ input, onOutput }) => {
    const words = Array.from({ length: Number(input) }, (_, n) => (n === 0 ? 'word' : ' word'))
    for (const word of words) await onOutput?.(word)
    return words.join('')
  }
  const stream = async (task: string) => {
    let shown = ''
    const onProgress = (event: { type: string; data: unknown }) => {
      if (event.type === 'output') shown += (event.data as { text: string }).text
    }
    return { result: await buyer.execute({ input: task, onProgress }), shown: () => shown }
  }
  const ceiling = async () =>
    (await seller.records.sellerChannels.take((await opened()).id))!.channel.best!.maxClaimableAmount
  return { ...all, stream, ceiling }
}

test('ADR-37 a streamed call begins with a small ceiling, which rises as the output costs more', async () => {
  const { stream, opened, ceiling, seller } = await market()
  const { result } = await stream('2')
  expect(result).toMatchObject({ output: 'word word', payment: { amount_atomic: '2000' } })
  expect(await ceiling()).toBeLessThanOrEqual(4_000n)
  const longer = await stream('7')
  expect(longer.result.payment).toMatchObject({ amount_atomic: '7000', units: { output_tokens: 7 } })
  expect(longer.result.payment?.cut).toBeUndefined()
  const { charged, mark, stopped, id } = await opened()
  expect({ charged, stopped }).toEqual({ charged: 9_000n, stopped: undefined })
  const best = await ceiling()
  expect(best - charged <= 2_000n && best <= mark).toBe(true)
  expect((await seller.records.sellerChannels.take(id))!.channel).toMatchObject({ charged: 9_000n, seq: 2 })
})

test('ADR-37 a channel that has no more ends a stream with what was paid for, and the buyer is told', async () => {
  const { stream, opened, channels, buyer, seller } = await market({ voucherWaitMs: 50 })
  await stream('1')
  const { id } = await opened()
  const line = channels.line(id)!
  seller.work = async ({ onOutput }) => {
    await onOutput?.('one')
    // Other calls take what is left in the channel.
    line.hold(`0x${'11'.repeat(32)}`, line.free - 500n)
    for (const word of [' two', ' three', ' four']) await onOutput?.(word)
    return 'one two three four'
  }
  const { result } = await stream('task')
  expect(result).toMatchObject({
    payment: { cut: true, settlement: 'settled' },
    notes: ['the output ends where it was paid for'],
  })
  expect('one two three four'.startsWith(result.output) && result.output !== 'one two three four').toBe(true)
  const charged = 1_000n + BigInt(result.payment!.amount_atomic)
  expect(await opened()).toMatchObject({ charged, stopped: undefined })
  expect(await buyer.spent()).toBe(charged)
})

test('ADR-37 a call whose output nobody watches, and one to a seller of before, are covered from their start', async () => {
  const watched = await market({ streamVouchers: false })
  expect((await watched.stream('2')).result.payment).toMatchObject({ amount_atomic: '2000' })
  expect(await watched.ceiling()).toBe(MAX)
  const plain = await market()
  expect(await plain.buyer.execute({ input: '3' })).toMatchObject({ payment: { amount_atomic: '3000' } })
  expect(await plain.ceiling()).toBe(MAX)
})
