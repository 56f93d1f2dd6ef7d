import { expect, onTestFinished, test } from 'vitest'
import { payingChannelOf } from '../../../test/support/buyer-channels.ts'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { randomHex, testWallet, usdc } from '../../../test/support/payments.ts'
import { createBuyerChannels } from '../../store/buyer-channels.ts'
import { openDatabase } from '../../store/database.ts'
import { ChannelLine } from './channel-line.ts'
import { lookForMissing } from './missing.ts'

test('T15: a search of the log that ends while a deposit is under way takes nothing back of what was put in', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const store = createBuyerChannels(database)
  const onChain = { balance: 0n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n }
  const channel = payingChannelOf({ onChain })
  await store.putDeposit(channel, () => true)
  const deps = { store, signer: testWallet().channelSigner('vouchers'), chainId: usdc.chainId, stopped: expect.fail }
  const line = new ChannelLine({ ...channel, inFlight: new Map() }, deps)
  const times = { validAfter: 1n, validBefore: 2n, salt: randomHex(), signature: randomHex(65) }
  let stored: Promise<unknown> = Promise.resolve()
  const found = await lookForMissing(line, {
    ...{ clock: new HandClock(channel.createdAt), store, chain: { authorizationAt: expect.fail } },
    async takenOut() {
      // It was made and has landed meanwhile, and is on its way to the disk.
      line.deposit = { amount: 50_000n, balanceBefore: 100_000n, ...times }
      const moved = { ...line.moved, in: line.moved.in + 50_000n }
      stored = store.depositEnded(channel.id, { onChain, moved }, channel.createdAt)
      return { amount: 30_000n, isWhole: true }
    },
  })
  await stored
  expect(found).toEqual({ missing: 100_000n, isWhole: true })
  expect((await store.get(channel.id))!.moved).toEqual({ in: 150_000n, out: 0n })
})

test('T15: two searches at once take a deposit that a reorganization undid off once', async () => {
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const store = createBuyerChannels(database)
  const onChain = { balance: 0n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n }
  // The RPC hides what lies in the channel too.
  const moved = { in: 100_000n, out: 0n, deposits: [{ amount: 50_000n, salt: randomHex(), validBefore: 2n }] }
  const channel = { ...payingChannelOf({ onChain }), moved }
  await store.putDeposit(channel, () => true)
  const deps = { store, signer: testWallet().channelSigner('vouchers'), chainId: usdc.chainId, stopped: expect.fail }
  const line = new ChannelLine({ ...channel, inFlight: new Map() }, deps)
  const clock = new HandClock(channel.createdAt)
  const authorizationAt = async () => ({ use: { state: 'unused' } as const, timeMs: clock.now() })
  const takenOut = async () => ({ amount: 0n, isWhole: true })
  const search = () => lookForMissing(line, { clock, store, chain: { authorizationAt }, takenOut })
  await Promise.all([search(), search()])
  expect((await store.get(channel.id))!.moved).toEqual({ in: 50_000n, out: 0n, deposits: [] })
})
