import { expect, onTestFinished, test } from 'vitest'
import { ChannelBuyer, channelTerms, FakeChannels, PRICE } from '../../../test/support/channel-buyer.ts'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { payTo, sellerWallet, usdc } from '../../../test/support/payments.ts'
import { callOf } from '../../../test/support/seller-channels.ts'
import { until } from '../../../test/support/until.ts'
import { silentLogger } from '../../lib/logger.ts'
import { openDatabase } from '../../store/database.ts'
import { createSellerChannelStore } from '../../store/seller-channels.ts'
import type { OpenChannel } from './open-channel.ts'
import { SellerChannels } from './seller-channels.ts'

const DEPOSIT = 100n * PRICE
const STALE_MS = 6 * 60_000
const never = new AbortController().signal

/** A chain whose next reading waits until the test lets it end. */
class HeldChannels extends FakeChannels {
  held: Promise<unknown> | undefined

  override async channels(ids: readonly `0x${string}`[]) {
    const { held } = this
    this.held = undefined
    await held
    return super.channels(ids)
  }
}

function openSeller() {
  const [chain, clock] = [new HeldChannels(), new HandClock()]
  const database = openDatabase({ path: ':memory:' })
  onTestFinished(() => database.close())
  const store = createSellerChannelStore(database)
  const parties = { receiver: payTo, receiverAuthorizer: sellerWallet.channelSigner('claims').address }
  const channels = new SellerChannels({
    ...{ clock, logger: silentLogger, asset: usdc, store, reader: chain, limits: { openMax: 1 } },
    terms: { ...parties, token: usdc.address, ...channelTerms },
    ...{ takesNew: () => true, isBlocked: () => false, blame: () => {} },
  })
  const callBy = (buyer: ChannelBuyer) => ({ peerId: 'buyer', payment: buyer.payment(PRICE).channel!, asked: PRICE })
  const take = (buyer: ChannelBuyer) => channels.take(callBy(buyer), never)
  const end = (channel: OpenChannel, amount: bigint | undefined) => {
    const { id, exchange } = callOf(1)
    const stored = amount === undefined ? undefined : { amount, exchange }
    return channel.end({ id, peerId: 'buyer', asked: PRICE, stored })
  }
  /** A channel with a deposit that was used. It is in the ledger. */
  async function used(seed: number): Promise<ChannelBuyer> {
    const buyer = new ChannelBuyer({ seed })
    chain.set(buyer.id, DEPOSIT)
    await end(await take(buyer), undefined)
    return buyer
  }
  /** A call that waits for a reading of the chain. */
  async function waiting(buyer: ChannelBuyer) {
    const gate = Promise.withResolvers<void>()
    clock.advance(STALE_MS)
    chain.held = gate.promise
    const taken = take(buyer)
    await until(() => chain.held === undefined)
    return { taken, go: () => gate.resolve() }
  }
  return { channels, store, callBy, end, used, waiting }
}

test('a channel that makes room for others while a call waits for the chain gives back nothing that the call may cost', async () => {
  const { channels, store, callBy, end, used, waiting } = openSeller()
  const other = await used(9)
  const buyer = await used(7)
  const { taken, go } = await waiting(buyer)
  // Another channel needs the place in memory, and then a refund needs the first one.
  await channels.know(callBy(other), never).catch(() => {})
  const agreed = await channels.agreeToRefund(buyer.id, { amountMin: 1n })
  go()
  await taken.then((channel) => end(channel, PRICE)).catch(() => {})
  const stored = (await store.get(buyer.id))!
  expect(stored.refund).toEqual(agreed?.refund)
  expect(stored.charged + (agreed?.refund.amount ?? 0n)).toBeLessThanOrEqual(DEPOSIT)
})

test('a channel that another process wants is not given up between the look at the chain and the call', async () => {
  const { channels, store, end, used, waiting } = openSeller()
  const buyer = await used(7)
  const { taken, go } = await waiting(buyer)
  channels.wanted(buyer.id)
  for (let turns = 0; turns < 5; turns++) await new Promise(setImmediate)
  go()
  expect(await end(await taken, PRICE)).toMatchObject({ total: PRICE })
  await until(() => channels.owned(buyer.id) === undefined)
  expect((await store.get(buyer.id))?.charged).toBe(PRICE)
})
