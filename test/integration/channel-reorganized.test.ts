/** T15 T37 A deposit that a reorganization of a real chain takes back is no locked money for ever. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ChannelRelay } from '../../src/payments/channels/channel-relay.ts'
import { ChannelSeller } from '../support/channel-seller.ts'
import { ChannelWorld, WORLD_PRICE } from '../support/channel-world.ts'
import { until } from '../support/until.ts'

const MINUTE_MS = 60_000
let devnet: Devnet
let parts: ChannelSeller
let world: ChannelWorld
/** True: what the seller sends does not get to the chain. */
let isCutOff = false

beforeAll(async () => {
  devnet = await startDevnet()
  parts = await new ChannelSeller(devnet).start()
  await parts.giveGas()
})
beforeEach(async () => {
  isCutOff = false
  const relay = parts.relay()
  const send: ChannelRelay['send'] = (...asked) =>
    isCutOff ? Promise.reject(new Error('the seller is cut off from the chain')) : relay.send(...asked)
  world = await new ChannelWorld(parts, { ...relay, send }).start({ snapshot: true })
})
afterEach(() => world?.stop())
afterAll(async () => {
  await parts.stop()
  await devnet.stop()
})

test('it is sent again while its seller can send it, and no other one', async () => {
  const { locked, shown } = await world.held()
  await world.reorganize()
  expect(await world.escrow()).toBe(0n)
  await world.pass(2 * MINUTE_MS)
  await until(async () => (await world.escrow()) === shown && (await world.held()).shown === shown)
  expect((await world.held()).locked).toBe(locked)
  await world.buyer.execute({ input: 'good again' })
  expect(await world.sums()).toMatchObject([{ counted: WORLD_PRICE }])
})

test('it counts until it can never happen again, and not any more then', async () => {
  const { locked } = await world.held()
  expect(locked).toBeGreaterThan(0n)
  isCutOff = true
  await world.reorganize()
  await world.pass(2 * MINUTE_MS)
  await until(async () => (await world.held()).sends)
  // Its seller may send it again.
  expect(await world.held()).toEqual({ locked, shown: 0n, sends: true })
  // By now nobody can. The chain may take one more step back.
  await world.pass(20 * MINUTE_MS)
  await until(async () => !(await world.held()).sends)
  await world.pass(MINUTE_MS)
  expect((await world.held()).locked).toBe(locked)
  await world.pass(60 * MINUTE_MS)
  await until(async () => (await world.held()).locked === 0n)
})
