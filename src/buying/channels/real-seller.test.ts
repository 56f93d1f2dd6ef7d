import { expect, test } from 'vitest'
import { PRICE } from '../../../test/support/channel-buyer.ts'
import { channelMarket } from '../../../test/support/channel-market.ts'
import { until } from '../../../test/support/until.ts'

test('a buyer and a seller of this node trade: `exact` first, then a channel, and the sums of both sides agree', async () => {
  const { buyer, seller, opened } = await channelMarket()
  // Five calls in an hour to one payee are worth a channel, also at this price.
  for (let call = 0; call < 5; call++) await buyer.execute()
  const first = (await buyer.ledger()).map(({ reservation }) => reservation?.channel)
  expect(first).toEqual([undefined, undefined, undefined, undefined, undefined])
  await until(async () => (await opened())?.deposit === undefined && (await opened())?.onChain.balance === 20n * PRICE)
  const results = await Promise.all(Array.from({ length: 12 }, (_, n) => buyer.execute({ input: `task ${n}` })))
  expect(results.map(({ output }) => output)).toEqual(Array.from({ length: 12 }, (_, n) => `re: task ${n}`))
  const { id, charged, seq, stopped, mark } = await opened()
  expect({ charged, seq, stopped }).toEqual({ charged: 12n * PRICE, seq: 12, stopped: undefined })
  const atSeller = (await seller.records.sellerChannels.take(id))!.channel
  expect([atSeller.charged, atSeller.seq]).toEqual([charged, seq])
  expect(atSeller.best!.maxClaimableAmount).toBeLessThanOrEqual(mark)
  expect(await buyer.spent()).toBe(17n * PRICE)
})

test('a channel is filled up at a quarter, and survives a restart of its seller', async () => {
  const { buyer, opened, restart, deposits, channels } = await channelMarket()
  for (let call = 0; call < 5; call++) await buyer.execute()
  await until(async () => (await opened())?.onChain.balance === 20n * PRICE)
  for (let call = 0; call < 17; call++) await buyer.execute()
  await until(async () => (await opened()).onChain.balance === 40n * PRICE)
  expect(deposits()).toBe(2)
  await restart()
  for (let call = 0; call < 3; call++) expect(await buyer.execute()).toMatchObject({ output: 're: task' })
  const { id, charged, stopped } = await opened()
  expect([charged, stopped, channels.line(id)!.channel.inFlight.size]).toEqual([20n * PRICE, undefined, 0])
})

test('a quarter of the smallest deposit that a seller takes is left for a channel that is filled up', async () => {
  const { buyer, opened, deposits } = await channelMarket({ minDeposit: 40n * PRICE })
  for (let call = 0; call < 5; call++) await buyer.execute()
  await until(async () => (await opened())?.onChain.balance === 40n * PRICE)
  for (let call = 0; call < 32; call++) await buyer.execute()
  await until(async () => (await opened()).onChain.balance === 80n * PRICE)
  expect(deposits()).toBe(2)
})
