import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { listedAgent as agent } from '../../test/support/listings.ts'
import { eve, searchedMarket } from '../../test/support/searched-market.ts'
import { didOfPeer } from '../p2p/did.ts'
import type { Listing } from '../schema/listing.ts'
import type { AgentQuery } from '../schema/search.ts'
import type { AgentStats } from '../schema/standing.ts'
import { KnownAgents } from './known-agents.ts'
import { candidates, type Wish } from './routing.ts'

const measured = (calls: number, success_rate: number, p50_ms: number): AgentStats => ({
  ...{ calls, success_rate, p50_ms, p95_ms: p50_ms, last_seen: null },
  ...{ settled_volume: '0', settled_volume_atomic: '0' },
})

const everybody = () => true
function route(
  listings: readonly Listing[],
  wish: Partial<Wish>,
  perCall = 1_000_000n,
  isAllowed: (listing: Listing) => boolean = everybody,
): string[] {
  const page = ({ tags = [] }: AgentQuery) => ({
    items: listings.filter((listing) => tags.every((tag) => listing.tags.includes(tag))),
    next: undefined,
  })
  const find = (name: string) => listings.find((listing) => listing.name === name)
  const whole = { names: ['auto'], asked: undefined, autoMaxPrice: 10_000n, maySpend: true, isOperator: true, ...wish }
  const known = new KnownAgents({ search: { page }, clock: new HandClock() })
  return candidates(whole, { search: { find }, known, perCall: () => perCall, isAllowed }).map(
    ({ listing }) => listing.name,
  )
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

test('T35: who lists an agent under the name of a well-known model gets no more than auto pays', () => {
  const squatter = agent('gpt-4o-mini', 1_000_000n)
  const limit = (name: string, asked?: bigint, listing = squatter) => {
    const wish = { names: [name], asked, autoMaxPrice: 10_000n, maySpend: true, isOperator: true }
    const search = { find: () => listing, page: () => ({ items: [], next: undefined }) }
    const known = new KnownAgents({ search, clock: new HandClock() })
    return candidates(wish, { search, known, perCall: () => 1_000_000n, isAllowed: () => true })[0]!.maxPrice
  }
  expect(limit('gpt-4o-mini')).toBe(10_000n)
  expect(limit('GPT-4o-mini')).toBe(10_000n)
  expect(limit('gpt-4o-mini', 20_000n)).toBe(20_000n)
  expect([limit(squatter.id), limit(`${squatter.seller_id}/gpt-4o-mini`)]).toEqual([undefined, undefined])
  expect(limit('own', undefined, agent('own', 1_000_000n, { local: true }))).toBeUndefined()
  // Its owner chooses how an id begins: six characters, such as "gemini", take minutes of trying names.
  expect(limit(squatter.id.slice(0, 6))).toBe(10_000n)
})

test('T35: a stranger whose agent is called like a model of a vendor gets no more than auto pays', async () => {
  const { search, list } = searchedMarket()
  const [squatter] = await list(eve, ['openai/gpt-4o-mini'], { price_atomic: 1_000_000n })
  const limit = (name: string) => {
    const wish = { names: [name], asked: undefined, autoMaxPrice: 10_000n, maySpend: true, isOperator: true }
    const known = new KnownAgents({ search, clock: new HandClock() })
    const found = candidates(wish, { search, known, perCall: () => 1_000_000n, isAllowed: everybody })
    return found.map(({ listing, maxPrice }) => [listing.id, maxPrice])
  }
  // Programs name models so, with a slash, when they are set up for a market of models.
  expect(limit('openai/gpt-4o-mini')).toEqual([[squatter!.id, 10_000n]])
  expect(limit('OpenAI/GPT-4o-mini')).toEqual([[squatter!.id, 10_000n]])
  for (const chosen of [eve, didOfPeer(eve)]) {
    expect(limit(`${chosen}/openai/gpt-4o-mini`)).toEqual([[squatter!.id, undefined]])
  }
  expect(limit(`${eve.slice(0, 16)}/openai/gpt-4o-mini`)).toEqual([[squatter!.id, 10_000n]])
})

test('T35: a token that may not spend gets free agents, and only the operator own agents with a price', () => {
  const listings = [agent('free', 0n), agent('paid', 10n), agent('own', 10n, { local: true })]
  expect(route(listings, { maySpend: false, isOperator: false })).toEqual(['free'])
  expect(route(listings, { isOperator: false }).toSorted()).toEqual(['free', 'paid'])
  expect(route(listings, {}).toSorted()).toEqual(['free', 'own', 'paid'])
})

test('requests that come together read the market once, a later one or one after a failure again', () => {
  const clock = new HandClock()
  let reads = 0
  const listings = [agent('model', 5_000n)]
  const page = () => {
    reads++
    return { items: listings, next: undefined }
  }
  const known = new KnownAgents({ search: { page }, clock })
  const names = (wanted: string) => {
    const wish = { names: [wanted], asked: undefined, autoMaxPrice: 10_000n, maySpend: true, isOperator: true }
    const found = candidates(wish, {
      search: { find: () => undefined },
      known,
      perCall: () => 10_000n,
      isAllowed: () => true,
    })
    return found.map(({ listing }) => listing.name)
  }
  for (let request = 1; request <= 3; request++) expect(names('auto')).toEqual(['model'])
  expect(reads).toBe(1)
  listings.push(agent('better', 1n))
  clock.advance(1_000)
  expect(names('auto')).toEqual(['better', 'model'])
  known.forget()
  names('auto')
  expect(reads).toBe(3)
})

test('an agent that has just come is found, although the market was read before', () => {
  const listings: Listing[] = []
  const known = new KnownAgents({
    search: { page: () => ({ items: listings, next: undefined }) },
    clock: new HandClock(),
  })
  const deps = { search: { find: () => undefined }, known, perCall: () => 10_000n, isAllowed: () => true }
  const wish = { names: ['tag:new'], asked: undefined, autoMaxPrice: 10_000n, maySpend: true, isOperator: true }
  expect(() => candidates(wish, deps)).toThrow(/no agent with the tag new/)
  listings.push(agent('new', 1n))
  expect(candidates(wish, deps).map(({ listing }) => listing.name)).toEqual(['new'])
})

test('auto asks for the tag too where the market is larger than what is read', () => {
  const tagged = agent('tagged', 1n, { model: 'builtin/echo', tags: ['chat'] })
  const many = Array.from({ length: 301 }, (_, index) => agent(`a${index}`, 1n, { model: 'builtin/echo' }))
  const page = ({ tags }: AgentQuery) =>
    tags === undefined ? { items: many, next: 'more' } : { items: [tagged], next: undefined }
  const known = new KnownAgents({ search: { page }, clock: new HandClock() })
  const wish = { names: ['auto'], asked: undefined, autoMaxPrice: 10_000n, maySpend: true, isOperator: true }
  const found = candidates(wish, {
    search: { find: () => undefined },
    known,
    perCall: () => 10_000n,
    isAllowed: () => true,
  })
  expect(found.map(({ listing }) => listing.name)).toEqual(['tagged'])
})

test('a request that finds nobody reads the market once, reads anew only what was read before it, and keeps the rest', () => {
  let reads: (string | undefined)[] = []
  const listings = [agent('other', 1n, { tags: ['other'] })]
  const page = ({ tags }: AgentQuery) => {
    reads.push(tags?.[0])
    return { items: listings.filter((one) => tags?.every((tag) => one.tags.includes(tag)) !== false), next: undefined }
  }
  const known = new KnownAgents({ search: { page }, clock: new HandClock() })
  const deps = { search: { find: () => undefined }, known, perCall: () => 10_000n, isAllowed: () => true }
  const ask = (name: string) => {
    reads = []
    const wish = { names: [name], asked: undefined, autoMaxPrice: 10_000n, maySpend: true, isOperator: true }
    try {
      return [candidates(wish, deps).map(({ listing }) => listing.name), reads]
    } catch {
      return ['nobody', reads]
    }
  }
  expect(ask('tag:other')).toEqual([['other'], ['other']])
  expect(ask('tag:nobody')).toEqual(['nobody', ['nobody']])
  expect(ask('tag:nobody')).toEqual(['nobody', ['nobody']])
  expect(ask('tag:other')).toEqual([['other'], []])
})

test('only sellers that the operator allows see what is routed, also for nothing; an agent that is named is another matter', () => {
  const many = Array.from({ length: 9 }, (_, at) => agent(`stranger ${at}`, 0n, { stats: measured(50, 1, 100) }))
  const listings = [...many, agent('trusted', 9_000n), agent('own', 0n, { local: true })]
  const isAllowed = ({ name }: Listing) => name === 'trusted'
  expect(route(listings, {}, 1_000_000n, isAllowed).toSorted()).toEqual(['own', 'trusted'])
  expect(() => route(many, {}, 1_000_000n, isAllowed)).toThrow(/the budget does not allow its seller/)
  expect(route(listings, { names: ['stranger 3'] }, 1_000_000n, isAllowed)).toEqual(['stranger 3'])
})
