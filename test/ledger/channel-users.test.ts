/** Two processes of a seller and one channel: who may move it, and that a call runs at one of them. */
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { Hex } from '../../src/schema/primitives.ts'
import { all, one } from '../../src/store/query.ts'
import { ChannelBuyer, channelTerms, FakeChannels, PRICE } from '../support/channel-buyer.ts'
import { openShared } from '../support/ledgers.ts'
import { randomHex } from '../support/payments.ts'
import { until } from '../support/until.ts'
import { TestSeller, told } from '../support/x402-seller.ts'

async function setup() {
  const chain = new FakeChannels()
  const ledgers = await openShared(2)
  const sellers = ledgers.map((ledger) => new TestSeller({ ledger, channels: { reader: chain, ...channelTerms } }))
  onTestFinished(async () => void (await Promise.all(sellers.map((seller) => seller.stop()))))
  for (const seller of sellers) await seller.start()
  const buyer = new ChannelBuyer()
  chain.set(buyer.id, 100n * PRICE)
  const [ledger] = ledgers
  const [a, b] = sellers as [TestSeller, TestSeller]
  return {
    ...{ a, b, buyer, here: await a.connect('buyer'), there: await b.connect('buyer') },
    owner: async () => (await ledger!.query(one<{ owner: string }>('SELECT owner FROM seller_channels')))?.owner,
    asked: () => ledger!.query(all("SELECT id FROM changes WHERE record = 'channel'")),
  }
}

test('who knows only the id of a channel moves it to no other process, and asks for none', async () => {
  const { b, buyer, here, there, owner, asked } = await setup()
  expect(told(await buyer.call(here, PRICE))).toBe('re: task')
  const before = await owner()
  const stranger = await b.connect('stranger')
  const forged = { voucher: { ...buyer.voucher(50n * PRICE), signature: randomHex(65) } }
  const replayed = { voucher: buyer.voucher(PRICE) }
  for (const made of [forged, replayed]) {
    expect((await buyer.call(stranger, 0n, made))?.type).toBe('x402.error')
  }
  expect([await owner(), await asked()]).toEqual([before, []])
  // Its user does.
  expect((await buyer.call(there, 2n * PRICE))?.message.message).toMatch(/another process of this seller has/)
  expect(await asked()).toHaveLength(1)
})

test('a call that another process ran while its channel moved is answered with what is stored', async () => {
  const { a, b, buyer, here, there, owner } = await setup()
  const id = randomUUID()
  const { payments } = b.deps
  const { has } = payments
  // After this process has looked for the call, the other one runs it and gives the channel up.
  payments.has = async (payment: Hex) => {
    payments.has = has
    expect(await has(payment)).toBe(false)
    expect(told(await buyer.call(here, PRICE, { id }))).toBe('re: task')
    a.deps.channels!.wanted(buyer.id)
    await until(async () => (await owner()) === null)
    return false
  }
  expect(told(await buyer.call(there, 2n * PRICE, { id }))).toBe('re: task')
  expect([a.runs.length, b.runs.length]).toEqual([1, 0])
  // Nothing of it is kept here: the next call is the second charge.
  expect((await buyer.call(there, 2n * PRICE))?.message.charge).toMatchObject({ seq: 2, total: 2n * PRICE })
})
