/** T15 T37 A deposit that a reorganization of a real chain takes back is no locked money for ever. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { ChannelSeller } from '../support/channel-seller.ts'
import { ChannelWorld } from '../support/channel-world.ts'
import { until } from '../support/until.ts'

const MINUTE_MS = 60_000
let devnet: Devnet
let parts: ChannelSeller
let world: ChannelWorld

beforeAll(async () => {
  devnet = await startDevnet()
  parts = await new ChannelSeller(devnet).start()
  await parts.giveGas()
  world = await new ChannelWorld(parts, parts.relay()).start({ snapshot: true })
})
afterAll(async () => {
  await world?.stop()
  await parts.stop()
  await devnet.stop()
})

test('it counts until it can never happen again, and not any more then', async () => {
  const { locked } = await world.held()
  expect(locked).toBeGreaterThan(0n)
  await world.reorganize()
  await world.pass(2 * MINUTE_MS)
  await until(async () => (await world.held()).shown === 0n)
  // Its seller may send it again.
  expect(await world.held()).toEqual({ locked, shown: 0n })
  // By now nobody can. The chain may take one more step back.
  await world.pass(20 * MINUTE_MS)
  await world.pass(MINUTE_MS)
  expect((await world.held()).locked).toBe(locked)
  await world.pass(60 * MINUTE_MS)
  await until(async () => (await world.held()).locked === 0n)
})
