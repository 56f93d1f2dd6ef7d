import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { ChannelOffer } from './channel-offer.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function setup(trouble: (signal: AbortSignal) => Promise<string | undefined>) {
  const said = { trouble }
  const published: boolean[] = []
  const offer = new ChannelOffer({
    logger: silentLogger,
    trouble: (signal) => said.trouble(signal),
    changed: async () => void published.push(await offer.listed()),
  })
  return { offer, said, published }
}
const none = async () => undefined
const poor = async () => 'the wallet has too little ETH'
const away = () => Promise.reject(new Error('the RPC is away'))
const minute = () => vi.advanceTimersByTimeAsync(60_000)

test('channels are offered from the first listing on where they can be settled, and not where they cannot', async () => {
  const able = setup(none)
  expect(able.offer.isOpen).toBe(false)
  expect(await able.offer.listed()).toBe(true)
  expect(able.offer.isOpen).toBe(true)
  const unable = setup(poor)
  expect([await unable.offer.listed(), unable.offer.isOpen]).toEqual([false, false])
})

test('a chain that does not answer offers none at first, and then what was seen last', async () => {
  const { offer, said, published } = setup(away)
  expect(await offer.listed()).toBe(false)
  await offer.start()
  said.trouble = none
  await minute()
  expect(published).toEqual([true])
  said.trouble = away
  await minute()
  expect([published, offer.isOpen]).toEqual([[true], true])
  await offer.stop()
})

test('when the wallet runs out of ETH, and when it has some again, the listings say so once', async () => {
  const { offer, said, published } = setup(none)
  await offer.listed()
  await offer.start()
  await minute()
  said.trouble = poor
  await minute()
  await minute()
  said.trouble = none
  await minute()
  expect(published).toEqual([false, true])
  await offer.stop()
})

test('a listing waits two seconds for the chain, and is published again when the chain has answered', async () => {
  const answer = Promise.withResolvers<undefined>()
  const { offer, published } = setup(() => answer.promise)
  const listed = offer.listed()
  await vi.advanceTimersByTimeAsync(2_000)
  expect(await listed).toBe(false)
  answer.resolve(undefined)
  await vi.waitFor(() => expect(published).toEqual([true]))
})

test('a chain that is silent delays the listings of all agents once, and not once each', async () => {
  const { offer } = setup(() => new Promise(() => {}))
  const from = Date.now()
  const agents = (async () => {
    for (let agent = 0; agent < 5; agent++) await offer.listed()
    return Date.now() - from
  })()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(await agents).toBe(2_000)
})

test('a node that lists nothing for money asks nobody', async () => {
  let asked = 0
  const { offer } = setup(async () => void asked++)
  await offer.start()
  await minute()
  await offer.stop()
  expect(asked).toBe(0)
})
