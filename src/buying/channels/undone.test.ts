/** T15: a reorganization takes back a deposit that had landed. */
import { expect, test } from 'vitest'
import { ChannelScript } from '../../../test/support/channel-script.ts'
import { scriptedMarket } from '../../../test/support/scripted-market.ts'
import { until } from '../../../test/support/until.ts'
import { depositNonce } from '../../payments/channel-digests.ts'
import type { Hex } from '../../schema/primitives.ts'

const PRICE = 1_000n
const MINUTE_MS = 60_000

async function marketOf() {
  const seller = new ChannelScript(PRICE)
  const sent = () => seller.requests.flatMap(({ payment }) => payment?.channel ?? []).filter(({ deposit }) => deposit)
  /** The authorizations that the chain shows as used. */
  const used = new Set<Hex>()
  class Shown extends Map<string, bigint> {
    override set(channelId: string, amount: bigint): this {
      const { salt } = sent().at(-1)!.deposit!.authorization
      used.add(depositNonce({ channelId: channelId as Hex, salt }))
      return super.set(channelId, amount)
    }
    override clear(): void {
      used.clear()
      super.clear()
    }
  }
  Object.assign(seller, { chain: new Shown() })
  async function authorizationAt(_token: Hex, _payer: Hex, nonce: Hex) {
    const use = used.has(nonce) ? { state: 'used' as const, txHash: undefined } : { state: 'unused' as const }
    return { use, timeMs: market.buyer.clock.now() }
  }
  const takenOut = async () => ({ amount: 0n, isWhole: true })
  const reader = { ...seller.reader, authorizationAt, takenOut }
  const market = await scriptedMarket({ open: seller.open, reader }, { price: PRICE })
  await market.open()
  const landed = async () => {
    const { deposit, onChain } = await market.stored()
    return deposit === undefined && onChain.balance === 20n * PRICE
  }
  return {
    ...{ ...market, seller, landed },
    /** How often a deposit was signed. */
    signed: () => new Set(sent().map(({ deposit }) => deposit!.authorization.salt)).size,
    /** The chain goes back to before the deposit, and all read it again. */
    async takeBack(): Promise<void> {
      const { length } = seller.requests
      seller.chain.clear()
      seller.channels.clear()
      market.buyer.clock.advance(MINUTE_MS + 1_000)
      await until(async () => seller.requests.length > length || (await market.stored()).onChain.balance === 0n)
    },
    /** What the channel holds by the count of the buyer. */
    async held() {
      const { moved, deposit } = await market.stored()
      return moved.in - moved.out + (deposit?.amount ?? 0n)
    },
  }
}

test('the same deposit is sent again while it can be, and the channel pays again; no second one is signed', async () => {
  const { buyer, seller, takeBack, landed, signed, held, stored } = await marketOf()
  for (let times = 1; times <= 3; times++) {
    seller.isSlow = true
    await takeBack()
    await until(async () => (await stored()).deposit !== undefined)
    // A call meanwhile is paid by itself, and asks for nothing more.
    await buyer.execute().catch(() => {})
    expect([signed(), await held()]).toEqual([1, 20n * PRICE])
    seller.isSlow = false
    await until(landed)
  }
  expect(await buyer.execute()).toMatchObject({ payment: { channel_id: (await stored()).id } })
  expect([signed(), await held()]).toEqual([1, 20n * PRICE])
})

test('a deposit that nobody can send any more is replaced, and the channel pays as soon as the new one is used', async () => {
  const { buyer, takeBack, signed, stored, landed } = await marketOf()
  buyer.clock.advance(11 * MINUTE_MS)
  await takeBack()
  await buyer.execute().catch(() => {})
  await until(() => signed() === 2)
  buyer.clock.advance(15_000)
  await until(landed)
  // No window had to end.
  expect(signed()).toBe(2)
  expect(await buyer.execute()).toMatchObject({ payment: { channel_id: (await stored()).id } })
})

test('a deposit that fills a channel up is seen although the one before it was taken back, and both lie there in the end', async () => {
  const { buyer, seller, signed, stored, held } = await marketOf()
  seller.isSlow = true
  for (let calls = 0; calls < 17; calls++) await buyer.execute()
  await until(async () => (await stored()).deposit !== undefined)
  // The chain takes the first one back, and shows the second.
  seller.chain.clear()
  seller.isSlow = false
  buyer.clock.advance(15_000)
  await until(async () => (await stored()).deposit === undefined)
  expect([signed(), (await stored()).onChain.balance, await held()]).toEqual([2, 20n * PRICE, 40n * PRICE])
  // Then the first one is sent again.
  seller.isSlow = true
  buyer.clock.advance(MINUTE_MS)
  await until(async () => (await stored()).deposit !== undefined)
  expect([signed(), await held()]).toEqual([2, 40n * PRICE])
})

test('a deposit that was sent again in vain counts an hour longer', async () => {
  const { buyer, seller, takeBack, held, stored } = await marketOf()
  seller.isSlow = true
  await takeBack()
  await until(async () => (await stored()).deposit !== undefined)
  buyer.clock.advance(15 * MINUTE_MS)
  await until(async () => (await stored()).deposit === undefined)
  expect(await held()).toBe(20n * PRICE)
  buyer.clock.advance(60 * MINUTE_MS)
  await until(async () => (await held()) === 0n)
})
