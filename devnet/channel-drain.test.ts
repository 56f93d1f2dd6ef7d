import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { ChannelSeller } from '../test/support/channel-seller.ts'
import { ChannelWorld } from '../test/support/channel-world.ts'
import { type Devnet, startDevnet } from './devnet.ts'

/* A buyer that has its seller pay for transactions. The seller, its books and the chain are real. */

let devnet: Devnet
let parts: ChannelSeller
let world: ChannelWorld
beforeAll(async () => {
  devnet = await startDevnet()
  parts = await new ChannelSeller(devnet).start()
  await parts.giveGas()
})
afterAll(async () => {
  await parts.stop()
  await devnet.stop()
})
beforeEach(async () => {
  world = await new ChannelWorld(parts, parts.relay()).start()
})
afterEach(() => world.stop())

async function cycle() {
  await world.topUp(1_000n)
  return world.refund()
}

test('hazard 4.19: a buyer that fills its channel and takes it back again and again costs 10 refunds an hour', async () => {
  await world.buyer.execute({ input: 'good' })
  // Its call has paid for the first refund. Nothing pays for those after it.
  await world.refund()
  for (let refunds = 0; refunds < 10; refunds++) await cycle()
  await expect(cycle()).rejects.toThrow('gives back too many channels that have paid less than this costs')
  // A call pays for the next one.
  await world.topUp(20_000n)
  world.clocks.seller.advance(10_000)
  await world.buyer.execute({ input: 'good' })
  await world.refund()
  world.clocks.seller.advance(60 * 60_000)
  await cycle()
})

test('T37 a buyer that asks for nothing again and again keeps no refund from anybody', async () => {
  await world.buyer.execute({ input: 'good' })
  await world.refund()
  for (let asked = 0; asked < 60; asked++) await expect(world.refund()).rejects.toThrow('is free in this channel')
  await cycle()
})
