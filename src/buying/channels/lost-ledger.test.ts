import { expect, test } from 'vitest'
import { PRICE } from '../../../test/support/channel-buyer.ts'
import { channelMarket } from '../../../test/support/channel-market.ts'
import { until } from '../../../test/support/until.ts'

test('a seller that has lost its ledger after it claimed all is trusted, and counts on', async () => {
  const { buyer, chain, opened, loseLedger } = await channelMarket()
  for (let call = 0; call < 5; call++) await buyer.execute()
  await until(async () => (await opened())?.onChain.balance === 20n * PRICE)
  for (let call = 0; call < 3; call++) await buyer.execute()
  const { id } = await opened()
  chain.set(id, 20n * PRICE, { totalClaimed: 3n * PRICE })
  const seller = await loseLedger()
  for (let call = 0; call < 2; call++) expect(await buyer.execute()).toMatchObject({ payment: { channel_id: id } })
  expect(await opened()).toMatchObject({ charged: 5n * PRICE, seq: 5, stopped: undefined })
  expect((await seller.records.sellerChannels.take(id))!.channel).toMatchObject({ charged: 5n * PRICE, seq: 5 })
})
