import { expect, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { scriptedMarket } from '../../../test/support/scripted-market.ts'
import { elsewhere } from '../../payments/channels/channel-refused.ts'
import { PeerError } from '../../protocols/peer-error.ts'

const PRICE = 1_000n
const stopping = { refuse: new PeerError('OVERLOADED', 'this seller stops: nothing was charged') }
const moving = { refuse: Object.assign(new PeerError('PAYMENT_REQUIRED', 'there'), { channel: elsewhere().statement }) }

async function market() {
  const seller = new ChannelScript(PRICE)
  const { buyer, open, stored } = await scriptedMarket(seller, { price: PRICE })
  await open()
  return { seller, buyer, stored, exact: seller.exact }
}

test('a call finds one process of its seller stopping, and its channel still there: the channel pays it as soon as it has moved', async () => {
  const { seller, buyer, stored, exact } = await market()
  seller.faults.push(stopping, moving, stopping)
  expect(await buyer.execute()).toMatchObject({ output: 'result' })
  expect([await stored(), seller.exact]).toMatchObject([{ charged: PRICE, seq: 1 }, exact])
})

test('a call whose channel does not move from a process that stops is paid for by itself', async () => {
  const { seller, buyer, stored, exact } = await market()
  seller.faults.push(moving, ...Array.from({ length: 10 }, () => stopping))
  await expect(buyer.execute()).rejects.toMatchObject({
    code: 'OVERLOADED',
    message: expect.stringContaining('tested on channels'),
  })
  expect([await stored(), seller.exact > exact]).toMatchObject([{ charged: 0n, seq: 0 }, true])
})

test('a seller with no room refuses a call twice, and is not asked on and on', async () => {
  const { seller, buyer, exact } = await market()
  seller.faults.push(...Array.from({ length: 10 }, () => stopping))
  await expect(buyer.execute()).rejects.toMatchObject({
    code: 'OVERLOADED',
    message: expect.stringContaining('this seller stops'),
  })
  expect([seller.faults.length, seller.exact]).toEqual([8, exact])
})
