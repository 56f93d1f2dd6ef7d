/** Channels whose calls come faster than their deposits. */
import { expect, test } from 'vitest'
import { channelMarket } from '../../../test/support/channel-market.ts'
import { until } from '../../../test/support/until.ts'

/** A tenth of what a transaction costs. */
const PRICE = 100n

async function marketOf({ price = PRICE, ...options }: { price?: bigint; depositMax?: bigint } = {}) {
  const sold = { agent: { amount: price }, listing: { price, price_atomic: `${price}` } }
  const market = await channelMarket({ ...sold, ...options })
  const { buyer, opened, seller } = market
  /** Whether a channel has paid the call. */
  const onChannel = async () => (await buyer.execute()).payment?.channel_id !== undefined
  const landed = async () => {
    await until(async () => (await opened())?.deposit === undefined && market.deposits() > 0)
    // A seller reads a channel that is used up every two seconds.
    for (const { clock } of [buyer, seller]) clock.advance(2_000)
  }
  return { ...market, onChannel, landed }
}

test('the first calls are paid by themselves, and the next ones wait for the deposit if a transaction costs more', async () => {
  const { onChannel, holdDeposits } = await marketOf()
  const mine = holdDeposits()
  for (let call = 0; call < 4; call++) expect(await onChannel()).toBe(false)
  const waiting = [onChannel(), onChannel()]
  mine()
  expect(await Promise.all(waiting)).toEqual([true, true])
})

test('calls that have used a channel up together wait for its next deposit', async () => {
  const { onChannel, landed, holdDeposits, deposits, seller } = await marketOf()
  await onChannel()
  await landed()
  const mine = holdDeposits()
  // The channel pays twenty of them.
  const calls = Array.from({ length: 30 }, onChannel)
  await Promise.all(calls.slice(0, 20))
  seller.clock.advance(2_000)
  mine()
  expect(await Promise.all(calls)).toEqual(calls.map(() => true))
  expect(deposits()).toBeGreaterThan(1)
})

test('a call that costs more than a transaction does not wait, and a cheap one waits no longer than 15 s', async () => {
  const dear = await marketOf({ price: 1_000n })
  const mineDear = dear.holdDeposits()
  for (let call = 0; call < 7; call++) expect(await dear.onChannel()).toBe(false)
  mineDear()

  const late = await marketOf()
  const mine = late.holdDeposits()
  for (let call = 0; call < 4; call++) await late.onChannel()
  const waiting = late.onChannel()
  await new Promise(setImmediate)
  late.buyer.clock.advance(15_000)
  expect(await waiting).toBe(false)
  // Nobody waits at all where a deposit has not landed for two minutes.
  late.buyer.clock.advance(105_000)
  late.seller.clock.advance(120_000)
  expect(await late.onChannel()).toBe(false)
  mine()
})

test('cheap calls wait for a deposit that could not be made for a moment, and not for one that a limit refuses', async () => {
  const { buyer, chain, onChannel } = await marketOf()
  chain.failure = new Error('the RPC does not answer')
  for (let call = 0; call < 4; call++) expect(await onChannel()).toBe(false)
  const waiting = onChannel()
  chain.failure = undefined
  await new Promise(setImmediate)
  buyer.clock.advance(5_000)
  expect(await waiting).toBe(true)

  const small = await marketOf({ depositMax: PRICE - 1n })
  for (let call = 0; call < 7; call++) expect(await small.onChannel()).toBe(false)
})

test('a call that waits for a deposit can be canceled', async () => {
  const { buyer, onChannel, holdDeposits, deposits } = await marketOf()
  const mine = holdDeposits()
  for (let call = 0; call < 4; call++) await onChannel()
  const leaving = new AbortController()
  const left = buyer.execute({ cancel: leaving.signal })
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow()
  mine()
  await until(() => deposits() === 1)
})

test('a deposit that failed is tried again after seconds, and later if it goes on failing', async () => {
  const { buyer, chain, onChannel, landed } = await marketOf({ price: 5_000n })
  chain.failure = new Error('the RPC does not answer')
  const tried = async () => {
    const before = chain.looks
    await onChannel()
    await new Promise(setImmediate)
    return chain.looks > before
  }
  expect([await tried(), await tried()]).toEqual([true, false])
  buyer.clock.advance(5_000)
  expect([await tried(), await tried()]).toEqual([true, false])
  buyer.clock.advance(5_000)
  expect(await tried()).toBe(false)
  buyer.clock.advance(5_000)
  expect(await tried()).toBe(true)
  chain.failure = undefined
  buyer.clock.advance(20_000)
  await onChannel()
  await landed()
  expect(await onChannel()).toBe(true)
})

test('a channel that is used up within a minute gets larger deposits', async () => {
  const { onChannel, landed, deposited } = await marketOf()
  for (let call = 0; call < 60; call++) {
    await onChannel()
    await landed()
  }
  expect(deposited[0]).toBe(20n * PRICE)
  expect(deposited.at(-1)).toBeGreaterThan(25n * PRICE)
})

test('a channel is filled up to what may lie at its seller, and never above', async () => {
  const { onChannel, landed, opened, deposited } = await marketOf({ depositMax: 20n * PRICE })
  await onChannel()
  await landed()
  for (let call = 0; call < 40; call++) {
    expect(await onChannel()).toBe(true)
    await landed()
    const { onChain, charged } = await opened()
    expect(onChain.balance - charged).toBeLessThanOrEqual(20n * PRICE)
  }
  expect(deposited.length).toBeGreaterThan(2)
})
