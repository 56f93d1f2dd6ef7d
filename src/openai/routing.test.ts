import { expect, test } from 'vitest'
import { listingRecord } from '../../test/support/listings.ts'
import type { Listing } from '../schema/listing.ts'
import type { AgentQuery } from '../schema/search.ts'
import type { AgentStats } from '../schema/standing.ts'
import { candidates, type Wish } from './routing.ts'

const seller = '12D3KooWSeller'

function agent(name: string, price: bigint, more: Partial<Listing> = {}): Listing {
  const {
    price_atomic,
    state: _state,
    v: _v,
    updated_at: _u,
    expires_at: _e,
    ...record
  } = listingRecord(seller, name, 1)
  return {
    ...record,
    price,
    price_atomic: `${price_atomic}`,
    seller_did: 'did:peer:seller',
    updated_at: '2026-01-01T00:00:00.000Z',
    expires_at: '2026-01-02T00:00:00.000Z',
    local: false,
    buyable: true,
    online: true,
    model: 'openai/gpt-5-mini',
    ...more,
  }
}

const measured = (calls: number, success_rate: number, p50_ms: number): AgentStats => ({
  ...{ calls, success_rate, p50_ms, p95_ms: p50_ms, last_seen: null },
  ...{ settled_volume: '0', settled_volume_atomic: '0' },
})

function route(listings: readonly Listing[], wish: Partial<Wish>, perCall = 1_000_000n): string[] {
  const page = ({ tags = [] }: AgentQuery) => ({
    items: listings.filter((listing) => tags.every((tag) => listing.tags.includes(tag))),
    next: undefined,
  })
  const find = (name: string) => listings.find((listing) => listing.name === name)
  const whole = { names: ['auto'], asked: undefined, autoMaxPrice: 10_000n, maySpend: true, isOperator: true, ...wish }
  return candidates(whole, { search: { page, find }, perCall: () => perCall }).map(({ listing }) => listing.name)
}

test('auto takes agents with a language model or the tag chat, within its limit', () => {
  const listings = [
    agent('model', 5_000n),
    agent('echo', 1n, { model: 'builtin/echo' }),
    agent('service', 5_001n, { model: undefined, tags: ['chat'] } as never),
    agent('dear', 10_001n),
    agent('away', 1n, { online: false }),
    agent('elsewhere', 1n, { buyable: false }),
  ]
  expect(route(listings, {})).toEqual(['model', 'service'])
  expect(route(listings, { asked: 20_000n })).toEqual(['model', 'service', 'dear'])
  expect(route(listings, { asked: 20_000n }, 5_000n)).toEqual(['model'])
})

test('profiles weigh price, success and time', () => {
  const listings = [
    agent('cheap', 100n, { stats: measured(20, 0.7, 8_000) }),
    agent('fast', 6_000n, { stats: measured(20, 0.8, 200) }),
    agent('best', 9_000n, { stats: measured(50, 1, 9_000) }),
    agent('bad', 50n, { stats: measured(50, 0, 100) }),
  ]
  for (const profile of ['cheap', 'fast', 'best'])
    expect(route(listings, { names: [`auto:${profile}`] })[0]).toBe(profile)
  expect(route(listings, {}).at(-1)).toBe('bad')
})

test('a tag is a route of its own, with a profile if wanted', () => {
  const listings = [agent('one', 900n, { tags: ['translate'] }), agent('two', 100n, { tags: ['translate', 'x'] })]
  expect(route(listings, { names: ['tag:translate:cheap'] })).toEqual(['two', 'one'])
  expect(() => route(listings, { names: ['tag:nobody'] })).toThrow(expect.objectContaining({ status: 404 }))
  expect(() => route(listings, { names: ['tag:'] })).toThrow(expect.objectContaining({ status: 400 }))
  expect(() => route(listings, { names: ['auto:shiny'] })).toThrow(expect.objectContaining({ status: 400 }))
})

test('names are asked in their order, each agent once', () => {
  const listings = [agent('one', 900n), agent('two', 100n)]
  expect(route(listings, { names: ['one', 'unknown', 'auto:cheap'] })).toEqual(['one', 'two'])
  expect(() => route(listings, { names: ['unknown'] })).toThrow('no agent "unknown" is known here')
})

test('T35: a token that may not spend gets free agents, and only the operator own agents with a price', () => {
  const listings = [agent('free', 0n), agent('paid', 10n), agent('own', 10n, { local: true })]
  expect(route(listings, { maySpend: false, isOperator: false })).toEqual(['free'])
  expect(route(listings, { isOperator: false }).toSorted()).toEqual(['free', 'paid'])
  expect(route(listings, {}).toSorted()).toEqual(['free', 'own', 'paid'])
})
