import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { HandClock } from '../../test/support/hand-clock.ts'
import { until } from '../../test/support/until.ts'
import type { Listing } from '../schema/listing.ts'
import type { Reputation } from '../schema/standing.ts'
import { knownReputation } from './known-reputation.ts'

const of = (token_id: string, changes: Partial<Listing> = {}) => listingFixture({ token_id, ...changes })
const said = (token_id: string): Reputation => ({
  ...{ token_id, network: 'eip155:84532', registry: '0x', count: 1, score: 90, value: '90', decimals: 0 },
})
function known(read: (listing: Listing) => Promise<Reputation | undefined>) {
  const clock = new HandClock()
  const asked: Listing[] = []
  const look = knownReputation({
    clock,
    read: (listing) => {
      asked.push(listing)
      return read(listing)
    },
  })
  return { clock, asked, look }
}

test('a list never waits: what is not known is asked for once, and shown from then on', async () => {
  const { asked, look, clock } = known(async ({ token_id }) => said(token_id!))
  expect([look(of('1')), look(of('1')), look(listingFixture())]).toEqual([undefined, undefined, undefined])
  await until(() => look(of('1')))
  expect([look(of('1')), asked.length]).toEqual([said('1'), 1])
  clock.advance(11 * 60_000)
  // Known from before, while it is asked anew.
  expect(look(of('1'))).toEqual(said('1'))
  await until(() => asked.length === 2)
})

test('the same token in another listing, paid on another account, is another claim', async () => {
  const thief = '0x1111111111111111111111111111111111111111'
  const { look, asked } = known(async ({ token_id, pay_to }) => (pay_to === thief ? undefined : said(token_id!)))
  look(of('1'))
  look(of('1', { pay_to: thief }))
  await until(() => look(of('1')))
  expect([look(of('1', { pay_to: thief })), asked.length]).toEqual([undefined, 2])
})

test('a chain that fails is left alone for a while; few are asked at once, and not all of a flood', async () => {
  let failing = true
  const gate = Promise.withResolvers<void>()
  const { look, asked, clock } = known(async ({ token_id }) => {
    if (failing) throw new Error('down')
    await gate.promise
    return said(token_id!)
  })
  look(of('1'))
  await until(() => asked.length === 1)
  look(of('1'))
  expect(asked).toHaveLength(1)
  failing = false
  clock.advance(61_000)
  for (let token = 1; token <= 1_000; token++) look(of(`${token}`))
  expect(asked).toHaveLength(1 + 4)
  gate.resolve()
  await until(() => look(of('1')) !== undefined && asked.length > 100)
  expect(asked.length).toBeLessThan(300)
})
