import { expect, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { scriptedMarket } from '../../../test/support/scripted-market.ts'
import { until } from '../../../test/support/until.ts'
import { StoreError } from '../../store/store-error.ts'

const PRICE = 1_000n

test('a result that could not be stored and is asked for again is counted once, and its seller is trusted', async () => {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored, line: lineOf } = await scriptedMarket(seller, { price: PRICE })
  await open()
  const line = await lineOf()
  await buyer.execute()
  const { finish } = buyer.deps.purchases
  const isFull = { now: true }
  buyer.deps.purchases.finish = (...end) =>
    isFull.now
      ? Promise.reject(new StoreError('STORE_WRITE_FAILED', 'the disk is full'))
      : finish.apply(buyer.deps.purchases, end)
  await buyer.execute()
  expect((await stored()).charged).toBe(PRICE)
  isFull.now = false
  const { order } = (await buyer.ledger()).find(({ reservation }) => reservation?.state === 'reserved')!
  await buyer.recovery.look(order.id)
  await until(async () => (await stored()).charged === 2n * PRICE)
  expect(line.channel).toMatchObject({ charged: 2n * PRICE, seq: 2, stopped: undefined })
  expect([...line.channel.inFlight]).toEqual([])
  await buyer.execute()
  expect(await stored()).toMatchObject({ charged: 3n * PRICE, seq: 3, stopped: undefined })
})
