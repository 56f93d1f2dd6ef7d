import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { ann, bob, eve, me, type SearchedMarket, searchedMarket, sellers } from '../../test/support/searched-market.ts'
import type { AgentQuery, AgentScope } from '../schema/search.ts'

const X402 = '/x402/libp2p/1.0.0'
const FREE = '/node/marketplace/1.0.0'

const names = ({ search }: SearchedMarket, query: AgentQuery = {}, scope?: AgentScope) =>
  search.page(query, scope).items.map(({ name }) => name)

/** Every listing of a query, page by page. */
function walk({ search }: SearchedMarket, query: AgentQuery, onPage: () => void = () => {}): string[] {
  const found: string[] = []
  for (let cursor: string | undefined, pages = 0; ; pages++) {
    const page = search.page({ ...query, ...(cursor !== undefined && { cursor }) })
    found.push(...page.items.map(({ id }) => id))
    if (page.next === undefined) return found
    if (pages > 2000) throw new Error('it never ends')
    cursor = page.next
    onPage()
  }
}

test('a match in a name ranks above a tag, and a tag above the description', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Plain'], { description: 'writes a contract, among much else that it does for you' })
  await market.list(ann, ['Tagged'], { tags: ['contract'] })
  await market.list(ann, ['Contract'])
  await market.list(ann, ['Other'])
  expect(names(market, { q: 'contracts' })).toEqual(['Contract', 'Tagged', 'Plain'])
})

test('the typed name ranks first, also above cheaper and fresher listings', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Contract Review Pro'], { price_atomic: 0n, tags: ['contract', 'review'] })
  await market.list(ann, ['Contract review'], { price_atomic: 5_000_000n, protocols: [X402] })
  expect(names(market, { q: 'contract REVIEW' })[0]).toBe('Contract review')
})

test('offline sellers rank last, however well they fit, and unknown sellers between', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Contract'])
  await market.list(bob, ['Contract writer'])
  await market.list(eve, ['Contract maker'])
  market.presences.set(ann, { online: false })
  market.presences.set(eve, { online: true, latencyMs: 5 })
  expect(names(market, { q: 'contract' })).toEqual(['Contract maker', 'Contract writer', 'Contract'])
  expect(names(market)).toEqual(['Contract maker', 'Contract writer', 'Contract'])
  expect(market.search.page({}).items.map(({ online, latency_ms }) => [online, latency_ms])).toEqual([
    [true, 5],
    [undefined, undefined],
    [false, undefined],
  ])
  expect(names(market, { online: true })).toEqual(['Contract maker'])
  expect(names(market, { online: false })).toEqual(['Contract'])
})

test('every filter keeps what fits it, alone and with the others', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Free legal'], { tags: ['Legal', 'de'] })
  await market.list(ann, ['Paid legal'], { price_atomic: 10_000n, protocols: [X402], tags: ['legal'] })
  await market.list(bob, ['Dear legal'], { price_atomic: 9_000_000n, protocols: [X402], tags: ['légal', 'de'] })
  await market.list(me, ['Own'], { tags: ['own'] })
  const sorted = (query: AgentQuery, scope?: AgentScope) => names(market, query, scope).toSorted()
  expect(sorted({ tags: ['LEGAL'] })).toEqual(['Dear legal', 'Free legal', 'Paid legal'])
  expect(sorted({ tags: ['legal', 'de'] })).toEqual(['Dear legal', 'Free legal'])
  expect(sorted({ free: true })).toEqual(['Free legal', 'Own'])
  expect(sorted({ free: false })).toEqual(['Dear legal', 'Paid legal'])
  expect(sorted({ max_price: 10_000n })).toEqual(['Free legal', 'Own', 'Paid legal'])
  expect(sorted({ max_price: 9_999n, free: false })).toEqual([])
  expect(sorted({ protocol: FREE })).toEqual(['Free legal', 'Own'])
  expect(sorted({ seller_id: bob })).toEqual(['Dear legal'])
  expect(sorted({}, 'local')).toEqual(['Own'])
  expect(sorted({}, 'discovered')).toEqual(['Dear legal', 'Free legal', 'Paid legal'])
  expect(sorted({ seller_id: ann }, 'local')).toEqual([])
  expect(sorted({ q: 'legal', tags: ['de'], free: false, max_price: 9_000_000n, seller_id: bob })).toEqual([
    'Dear legal',
  ])
})

test('a sort shows the cheapest first, or the latest met, with words and without', async () => {
  const market = searchedMarket()
  const paid = (price: bigint) => ({ price_atomic: price, protocols: price === 0n ? [X402, FREE] : [X402] })
  for (const [name, price] of [
    ['B legal', 30n],
    ['A legal', 7n],
    ['C', 0n],
    ['D legal', 7n],
  ] as const)
    await market.list(ann, [name], paid(price))
  expect(names(market, { sort: 'price' })).toEqual(['C', 'A legal', 'D legal', 'B legal'])
  expect(names(market, { sort: 'price', q: 'legal' })).toEqual(['A legal', 'D legal', 'B legal'])
  expect(names(market, { sort: 'newest' })).toEqual(['D legal', 'C', 'A legal', 'B legal'])
  expect(names(market, { sort: 'newest', q: 'legal', max_price: 7n })).toEqual(['D legal', 'A legal'])
})

test('a listing that expired or left is not shown, even before its row is gone', async () => {
  const market = searchedMarket()
  const [first] = await market.list(ann, ['Early', 'Late'])
  await market.delist(first!)
  expect(names(market)).toEqual(['Late'])
  market.clock.advance(25 * 3_600_000)
  for (const sort of ['rank', 'price', 'newest'] as const) expect(names(market, { sort })).toEqual([])
})

test('a listing that changed since it was indexed is filtered by its present contents', async () => {
  const market = searchedMarket()
  const [listed] = await market.list(ann, ['Cheap'], { price_atomic: 5n, protocols: [X402] })
  expect(names(market, { max_price: 5n })).toEqual(['Cheap'])
  market.database.prepare('UPDATE met_listings SET price = 1 WHERE id = ?').run(listed!.id)
  expect(names(market, { max_price: 4n })).toEqual([])
})

test('explain says why, with points that add up', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Contract summary'], { description: 'reads legal text' })
  const [best] = market.search.page({ q: 'summarize legel contracts', explain: true }).items
  const detail = best?.ranking?.reasons.find(({ signal }) => signal === 'text')?.detail
  expect(detail).toBe('“summarize”, “contracts” in its name; without “legel”')
  expect(market.search.page({ q: 'contract' }).items[0]).not.toHaveProperty('ranking')
  const total = best!.ranking!.reasons.reduce((sum, { points }) => sum + points, 0)
  expect(total).toBeCloseTo(best!.ranking!.score, 2)
})

/** A market in which every order has ties, and blocks and pages are crossed. */
async function crowd(count: number): Promise<SearchedMarket> {
  const market = searchedMarket()
  for (const [place, seller] of sellers.entries()) {
    const agents = Array.from(
      { length: count / 4 },
      (_, n) => `${n % 3 === 0 ? 'Contract' : 'Legal'} agent ${n} ${place}`,
    )
    for (const free of [true, false]) {
      const price = free ? {} : { price_atomic: BigInt(1 + (agents.length % 5)), protocols: [X402] }
      const some = agents.filter((_, n) => (n % 2 === 0) === free)
      await market.list(seller, some, { ...price, tags: free ? ['even'] : ['odd', 'x'] })
    }
  }
  market.presences.set(bob, { online: false })
  market.presences.set(eve, { online: true, latencyMs: 10 })
  return market
}

test('pages of any length give each listing once, in the order of one long page', async () => {
  const market = await crowd(1200)
  const queries = fc.record(
    {
      q: fc.constantFrom('agent', 'contract', 'legal agent', 'contract 7', 'agent zzzz'),
      tags: fc.constantFrom<string[]>(['even'], ['odd'], ['odd', 'x']),
      free: fc.boolean(),
      max_price: fc.constantFrom(0n, 3n),
      seller_id: fc.constantFrom(...sellers),
      online: fc.boolean(),
      sort: fc.constantFrom('rank' as const, 'price' as const, 'newest' as const),
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(queries, fc.integer({ min: 1, max: 500 }), (query, limit) => {
      const whole = walk(market, query)
      expect(new Set(whole).size).toBe(whole.length)
      expect(walk(market, { ...query, limit: Math.max(limit, Math.ceil(whole.length / 40)) })).toEqual(whole)
    }),
    { numRuns: 60 },
  )
  expect(walk(market, {})).toHaveLength(1200)
})

test('no page repeats a listing, however many come and go in the meantime', async () => {
  for (const query of [{}, { q: 'agent' }, { sort: 'price' }, { sort: 'newest' }] satisfies AgentQuery[]) {
    const market = await crowd(800)
    const before = walk(market, query)
    let turn = 0
    const found = walk(market, { ...query, limit: 50 }, () => {
      const late = before[(turn++ * 37) % before.length]!
      market.database.prepare('UPDATE met_listings SET shown = 0 WHERE id = ?').run(late)
      market.clock.advance(1000)
    })
    expect(new Set(found).size).toBe(found.length)
    expect(found.length).toBeGreaterThan(before.length - turn - 1)
  }
})

test('a cursor belongs to its query; how long a page is, and why, may change', async () => {
  const market = await crowd(40)
  const { next: cursor } = market.search.page({ q: 'agent', limit: 5 })
  expect(market.search.page({ q: 'agent', limit: 7, explain: true, cursor: cursor! }).items).toHaveLength(7)
  for (const other of [
    { q: 'legal' },
    { q: 'agent', free: true },
    { q: 'agent', sort: 'price' },
    {},
  ] satisfies AgentQuery[])
    expect(() => market.search.page({ ...other, cursor: cursor! })).toThrow(/another query/)
  expect(() => market.search.page({ q: 'agent', cursor: cursor! }, 'local')).toThrow(/another query/)
})

test('T7 a page whose filter keeps almost nothing ends early and has a next page', async () => {
  const market = searchedMarket()
  const fill = (from: number) => Array.from({ length: 2000 }, (_, n) => `agent ${from + n}`)
  for (const from of [0, 2000]) await market.list(ann, fill(from), { price_atomic: 9n, protocols: [X402] })
  await market.list(bob, ['agent last'])
  const first = market.search.page({ max_price: 0n, limit: 10 })
  expect(first.items).toEqual([])
  expect(first.next).toBeDefined()
  expect(walk(market, { max_price: 0n, limit: 10 })).toHaveLength(1)
  expect(walk(market, { q: 'agent', max_price: 0n, limit: 10 })).toHaveLength(1)
  expect(names(market, { max_price: 0n, sort: 'price' })).toEqual(['agent last'])
})

test('D37: a search finds what this node can buy; the plain list and `network` show the rest, marked', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Summary test'])
  await market.list(bob, ['Summary live'], { network: 'eip155:8453' })
  expect(market.search.page({}).items.map(({ name, buyable }) => [name, buyable])).toEqual(
    expect.arrayContaining([
      ['Summary test', true],
      ['Summary live', false],
    ]),
  )
  for (const sort of ['rank', 'price', 'newest'] as const) {
    expect(names(market, { q: 'summary', sort })).toEqual(['Summary test'])
    expect(names(market, { network: 'own', sort })).toEqual(['Summary test'])
    expect(names(market, { q: 'summary', network: 'eip155:8453', sort })).toEqual(['Summary live'])
    expect(names(market, { q: 'summary', network: 'any', sort })).toHaveLength(2)
    expect(names(market, { sort })).toHaveLength(2)
  }
})

test('find shows one listing with everything this node knows about it', async () => {
  const market = searchedMarket()
  const [listed] = await market.list(ann, ['Summary'])
  market.presences.set(ann, { online: true, latencyMs: 3 })
  expect(market.search.find(listed!.id)).toMatchObject({
    ...{ name: 'Summary', online: true, latency_ms: 3 },
    first_seen: '2026-01-01T00:00:00.000Z',
  })
  expect(market.search.find('nope')).toBeUndefined()
})

test('D33 a crowd of names with the same words hides no seller of the name, also one that does not answer now', async () => {
  const market = searchedMarket()
  await market.list(ann, ['Summary'])
  await market.list(eve, ['Summary', ...Array.from({ length: 120 }, (_, no) => `Summary ${no}`)])
  market.presences.set(ann, { online: false }).set(eve, { online: true })
  expect(() => market.search.find('Summary')).toThrow(expect.objectContaining({ code: 'AMBIGUOUS_AGENT' }))
  for (const seller of [ann, eve]) {
    expect(market.search.find(`${seller}/Summary`)).toMatchObject({ seller_id: seller, name: 'Summary' })
  }
})

test.each([1, 2, 3, 50])('what was imported is shown before all else, by pages of %i too', async (limit) => {
  const market = searchedMarket()
  await market.list(ann, ['A', 'B', 'C'])
  market.imported.push(...['x', 'y', 'z'].map((id) => listingFixture({ id })))
  const found = walk(market, { limit })
  expect(found.slice(0, 3)).toEqual(['x', 'y', 'z'])
  expect(new Set(found).size).toBe(6)
  expect(found).toHaveLength(6)
})
