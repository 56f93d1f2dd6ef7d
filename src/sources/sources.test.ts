import { beforeEach, expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { GuardedRequest } from '../lib/guarded-request.ts'
import { assets } from '../payments/assets.ts'
import type { AgentStats } from '../schema/standing.ts'
import { createSources, type SourcesDeps } from './sources.ts'

const own = assets['eip155:84532']
const payTo = '0x1111111111111111111111111111111111111111'
const AGENT = 'abcdefghijklmnop'
const MINUTE = 60_000

const terms = (amount = '10000', changes = {}) => ({
  ...{ scheme: 'exact', network: own.network, asset: own.address, payTo, amount, maxTimeoutSeconds: 60 },
  ...changes,
})
const item = (name: string, changes = {}) => ({
  ...{ resource: `https://${name}.example/run`, type: 'http', x402Version: 2, accepts: [terms()] },
  ...{ lastUpdated: '2026-11-20T10:00:00Z', serviceName: name, description: `The ${name} service` },
  ...changes,
})
const ok = (body: unknown, status = 200, headers: Record<string, string> = {}) => ({
  status,
  header: (name: string) => headers[name],
  text: typeof body === 'string' ? body : JSON.stringify(body),
})
const ask402 = (accepts: unknown[] = [terms()], url?: string) => {
  const asked = { x402Version: 2, accepts, ...(url !== undefined && { resource: { url } }) }
  return ok({}, 402, { 'payment-required': Buffer.from(JSON.stringify(asked)).toString('base64') })
}

type Answer = ReturnType<typeof ok>
let clock: HandClock
/** What servers answer, by the beginning of the URL. */
let servers: Map<string, (url: string) => Answer | Promise<Answer>>
let asked: string[]
const request: GuardedRequest = async (url, { method, signal }) => {
  asked.push(`${method} ${url}`)
  signal.throwIfAborted()
  const [, answer] = [...servers].find(([start]) => url.startsWith(start)) ?? []
  if (answer === undefined) throw new Error('connect ECONNREFUSED')
  return answer(url)
}

beforeEach(() => {
  clock = new HandClock()
  servers = new Map()
  asked = []
})

const never = new AbortController().signal
function sourcesOf(names: string[], changes: Partial<SourcesDeps> = {}) {
  const configured = names.map((name) => {
    return { name, url: `https://${name}.catalog/x402`, headers: { authorization: 'Bearer key' }, allowPrivate: false }
  })
  return createSources(configured, {
    ...{ clock, asset: own, outside: request, anywhere: request },
    purchases: { refusalOf: () => undefined, isOwn: () => true },
    ...{ ownUrls: () => [], isListed: () => false, bearing: () => [], measured: () => undefined },
    ...changes,
  })
}
const searchable = (name: string, items: unknown[]) =>
  servers.set(`https://${name}.catalog/x402/discovery/search`, () => ok({ x402Version: 2, resources: items }))
const listed = (name: string, items: unknown[]) => {
  servers.set(`https://${name}.catalog/x402/discovery/search`, () => ok('no', 404))
  servers.set(`https://${name}.catalog/x402/discovery/resources`, () => ok({ x402Version: 2, items, pagination: {} }))
}
const namesOf = ({ entries }: { entries: readonly { name?: string | undefined }[] }) => entries.map(({ name }) => name)

test('a search asks each catalog by its search, and by its list where it has none', async () => {
  searchable('a', [item('weather')])
  listed('b', [item('weather maps', { resource: 'https://maps.example/' }), item('cats')])
  const found = await sourcesOf(['a', 'b']).search({ q: 'weather' }, never)
  expect(namesOf(found).toSorted()).toEqual(['weather', 'weather maps'])
  expect(found.sources).toEqual([
    { name: 'a', ok: true, entries: 1 },
    { name: 'b', ok: true, entries: 1 },
  ])
  expect(asked).toEqual([
    'GET https://a.catalog/x402/discovery/search?query=weather&limit=20',
    'GET https://b.catalog/x402/discovery/search?query=weather&limit=20',
    'GET https://b.catalog/x402/discovery/resources?limit=100&offset=0',
  ])
})

test('an answer is kept for 10 min, and for an hour if the catalog then fails', async () => {
  searchable('a', [item('weather')])
  const sources = sourcesOf(['a'])
  await sources.search({ q: 'weather' }, never)
  await sources.search({ q: ' weather ' }, never)
  expect(asked.length).toBe(1)
  clock.advance(11 * MINUTE)
  servers.clear()
  const old = await sources.search({ q: 'weather' }, never)
  expect(namesOf(old)).toEqual(['weather'])
  expect(old.sources[0]).toMatchObject({ ok: false, age_seconds: 660, error: expect.stringContaining('ECONNREFUSED') })
  clock.advance(50 * MINUTE)
  expect((await sources.search({ q: 'weather' }, never)).entries).toEqual([])
})

test('a catalog that fails fails no search, is told, and is left alone for a while', async () => {
  searchable('a', [item('weather')])
  servers.set('https://b.catalog', () => ok('<html>sorry</html>', 500))
  const sources = sourcesOf(['a', 'b'])
  const found = await sources.search({ q: 'weather' }, never)
  expect(namesOf(found)).toEqual(['weather'])
  expect(found.sources[1]).toEqual({ name: 'b', ok: false, entries: 0, error: 'it answers with status 500' })
  const before = asked.length
  const again = await sources.search({ q: 'other', source: 'b' }, never)
  expect(asked.length).toBe(before)
  expect(again.sources[0]!.error).toMatch(/asked again in 5 s/)
  clock.advance(5_001)
  await sources.search({ q: 'other', source: 'b' }, never)
  expect(asked.length).toBe(before + 1)
  expect(sources.list()).toMatchObject([
    { state: 'ok', entries: 1 },
    { state: 'failed', url: 'https://b.catalog' },
  ])
})

test.each([
  ['HTML', () => ok('<html></html>'), /its answer is not JSON/],
  ['JSON without items', () => ok({ x402Version: 2 }), /no catalog of x402/],
  ['text instead of a list', () => ok({ items: 'all' }), /no catalog of x402/],
  [
    'a redirect',
    () => ok('', 307, { location: 'http://169.254.169.254/latest' }),
    /169\.254\.169\.254, which is not followed/,
  ],
  ['a broken redirect', () => ok('', 301, { location: 'http://[' }), /another address/],
  ['nothing at all', () => ok('', 404), /neither/],
  ['a million items', () => ok({ items: Array(1_000_000).fill(5) }), /more than 100000 values/],
  ['too much', () => Promise.reject(new CodedError('ANSWER_TOO_LARGE', 'the answer has more')), /has more/],
])('a catalog that answers with %s fails with a reason', async (_, answer, error) => {
  servers.set('https://a.catalog', answer)
  const found = await sourcesOf(['a']).search({ q: 'x' }, never)
  expect(found.entries).toEqual([])
  expect(found.sources[0]!.error).toMatch(error)
})

test('90,000 items are cut, and invalid ones are counted', async () => {
  searchable(
    'a',
    [...Array(90_000).keys()].map((at) => (at % 2 === 0 || at > 200 ? 5 : item(`n${at}`))),
  )
  const found = await sourcesOf(['a']).search({ q: 'service' }, never)
  expect(found.entries.length).toBe(20)
  expect(found.sources[0]).toEqual({ name: 'a', ok: true, entries: 100, left_out: 100 })
})

test('many queries wait for a rate, and callers of one query share one request', async () => {
  searchable('a', [item('weather')])
  const sources = sourcesOf(['a'])
  await Promise.all([...Array(50)].map(() => sources.search({ q: 'weather' }, never)))
  expect(asked.length).toBe(1)
  const errors: unknown[] = []
  for (let at = 0; at < 40; at++) errors.push((await sources.search({ q: `q${at}` }, never)).sources[0]!.error)
  expect(asked.length).toBe(20)
  expect(errors.at(-1)).toMatch(/asked too often/)
})

test('a caller that leaves ends its own wait and not that of others', async () => {
  const held = Promise.withResolvers<Answer>()
  servers.set('https://a.catalog', () => held.promise)
  const sources = sourcesOf(['a'])
  const leaving = new AbortController()
  const [left, stays] = [sources.search({ q: 'weather' }, leaving.signal), sources.search({ q: 'weather' }, never)]
  leaving.abort(new Error('gone'))
  await expect(left).rejects.toThrow('gone')
  held.resolve(ok({ resources: [item('weather')] }))
  expect(namesOf(await stays)).toEqual(['weather'])
})

test('an entry is buyable only after it has answered with terms like those of the catalog', async () => {
  searchable('a', [item('weather')])
  servers.set('https://weather.example', () => ask402())
  const sources = sourcesOf(['a'])
  const [before] = (await sources.search({ q: 'weather' }, never)).entries
  expect(before).toMatchObject({ state: 'unchecked', buyable: false })
  const [after] = (await sources.search({ q: 'weather', probe: true }, never)).entries
  expect(after).toMatchObject({
    ...{ state: 'live', buyable: true },
    expected: { price: '0.01', asset: own.address, network: own.network, pay_to: payTo },
  })
  expect(asked.filter((line) => line.includes('weather.example'))).toEqual(['GET https://weather.example/run'])
  expect(await sources.probe(before!.id, never)).toMatchObject({ state: 'live' })
  expect(asked.length).toBe(2)
})

const other = '0x2222222222222222222222222222222222222222'
test.each([
  ['a page', () => ok('<html>', 200), 'dead', /status 200/],
  ['a redirect', () => ok('', 302, { location: 'http://10.0.0.1/' }), 'dead', /status 302/],
  ['an error', () => ok('', 500), 'dead', /status 500/],
  ['402 and nothing', () => ok('{}', 402), 'dead', /no terms/],
  ['402 and HTML', () => ok('<html>', 402, { 'payment-required': '<html>' }), 'dead', /no terms/],
  ['402 of another version', () => ok({ x402Version: 3, accepts: [terms()] }, 402), 'dead', /no terms/],
  ['v2 in the body only', () => ok({ x402Version: 2, accepts: [terms()] }, 402), 'dead', /no terms/],
  ['a higher price', () => ask402([terms('10001')]), 'changed', /0\.010001 USDC, and the catalog says 0\.01/],
  ['another account', () => ask402([terms('1', { payTo: other })]), 'changed', /another account/],
  ['another network', () => ask402([terms('1', { network: 'eip155:8453' })]), 'unpayable', /paid on Base/],
  ['another asset', () => ask402([terms('1', { asset: other })]), 'unpayable', /another asset/],
  ['a float', () => ask402([terms('0.5')]), 'unpayable', /no price/],
  ['terms of another site', () => ask402([terms()], 'https://honest.example/run'), 'changed', /another address/],
  ['nothing', () => Promise.reject(new Error('\u001b[31mECONNRESET')), 'dead', /cannot be reached: \[31mECONNRESET/],
  ['a private address', () => Promise.reject(new CodedError('ADDRESS_NOT_PUBLIC', 'x')), 'dead', /open internet/],
])('a resource that answers with %s is not buyable', async (_, answer, state, reason) => {
  searchable('a', [item('weather')])
  servers.set('https://weather.example', answer)
  const [entry] = (await sourcesOf(['a']).search({ q: 'weather', probe: true }, never)).entries
  expect(entry).toMatchObject({ state, buyable: false, reason: expect.stringMatching(reason) })
  expect(entry!.expected).toBeUndefined()
})

test('a lower live price is buyable, at that price', async () => {
  searchable('a', [item('weather')])
  servers.set('https://weather.example', () => ask402([terms('9000')]))
  const [entry] = (await sourcesOf(['a']).search({ q: 'weather', probe: true }, never)).entries
  expect(entry).toMatchObject({ buyable: true, listed: { price: '0.01' }, expected: { price: '0.009' } })
})

test('v1 terms in the body are read', async () => {
  const { amount, ...rest } = terms()
  const v1 = { ...rest, network: 'base-sepolia', maxAmountRequired: amount, resource: 'https://weather.example/run' }
  searchable('a', [item('weather')])
  servers.set('https://weather.example', () => ok({ x402Version: 1, accepts: [v1] }, 402))
  const [entry] = (await sourcesOf(['a']).search({ q: 'weather', probe: true }, never)).entries
  expect(entry).toMatchObject({ state: 'live' })
})

test('tools of MCP servers, other methods and other networks are not asked', async () => {
  const put = { extensions: { bazaar: { info: { input: { type: 'http', method: 'DELETE' } } } } }
  const elsewhere = { accepts: [terms('1', { network: 'eip155:8453' })] }
  searchable('a', [item('tool', { type: 'mcp' }), item('put', put), item('far', elsewhere)])
  const { entries } = await sourcesOf(['a']).search({ q: 'service', probe: true }, never)
  expect(entries.map(({ state }) => state)).toEqual(['unpayable', 'unpayable', 'unpayable'])
  expect(asked.length).toBe(1)
})

test('T38: a catalog cannot turn this node against a site', async () => {
  searchable(
    'a',
    [...Array(20).keys()].map((at) => item('victim', { resource: `https://victim.example/${at}` })),
  )
  servers.set('https://victim.example', () => ask402())
  const sources = sourcesOf(['a'])
  for (let round = 0; round < 5; round++) await sources.search({ q: 'victim', probe: true }, never)
  expect(asked.filter((line) => line.includes('victim.example/')).length).toBe(5)
  const { entries } = await sources.search({ q: 'victim', probe: true, limit: 50 }, never)
  expect(entries.filter(({ buyable }) => buyable).length).toBe(5)
})

test('T38: agents of the market and of this node are no entries, whoever says to be them', async () => {
  searchable('a', [
    item('mine', { resource: 'https://node.example/x402/zzzzzzzzzzzzzzzz' }),
    item('theirs', { resource: `https://seller.example/x402/${AGENT}` }),
    item('stream', { resource: `https://seller.example/x402/${AGENT}/stream` }),
    item('impostor', { resource: `https://evil.example/x402/${AGENT}/` }),
    item('other', { resource: 'https://seller.example/x402/ponmlkjihgfedcba' }),
  ])
  const sources = sourcesOf(['a'], { ownUrls: () => ['https://node.example'], isListed: (id) => id === AGENT })
  const found = await sources.search({ q: 'service' }, never)
  expect(namesOf(found)).toEqual(['other'])
  expect(found.sources[0]).toMatchObject({ entries: 1, left_out: 4 })
})

test('an entry that bears the name of a listing says so and ranks lower', async () => {
  searchable('a', [item('Summary'), item('Digest')])
  const alike = { id: AGENT, name: 'Summary', seller_id: 'seller' }
  const sources = sourcesOf(['a'], { bearing: (name) => (name === 'Summary' ? [alike] : []) })
  const { entries } = await sources.search({ q: 'service' }, never)
  expect(namesOf({ entries })).toEqual(['Digest', 'Summary'])
  expect(entries[1]!.look_alike_of).toEqual(alike)
})

test('own measurements rank first, then payers; what calls a catalog claims counts for nothing', async () => {
  const stats = { calls: 4, success_rate: 1, p50_ms: 20 } as AgentStats
  const claims = (payers: number, calls: number) => ({
    quality: { l30DaysUniquePayers: payers, l30DaysTotalCalls: calls },
  })
  searchable('a', [
    item('many calls', { resource: 'https://c.example/', ...claims(1, 1e12) }),
    item('many payers', { resource: 'https://p.example/', ...claims(400, 500) }),
    item('used before', { resource: 'https://u.example/' }),
    item('failed before', { resource: 'https://f.example/', ...claims(1e12, 1e12) }),
  ])
  const measured = (url: string) => {
    const share = { 'https://u.example/': 0.9, 'https://f.example/': 0.1 }[url]
    return share === undefined ? undefined : { share, stats }
  }
  const { entries } = await sourcesOf(['a'], { measured }).search({ q: 'service' }, never)
  expect(namesOf({ entries })[0]).toBe('used before')
  expect(namesOf({ entries }).at(-1)).toBe('failed before')
  expect(entries[0]).toMatchObject({ stats: { calls: 4 } })
})

test('one host cannot fill an answer', async () => {
  const spam = [...Array(30).keys()].map((at) => item(`spam${at}`, { resource: `https://spam.example/${at}` }))
  searchable('a', [...spam, item('honest')])
  const { entries } = await sourcesOf(['a']).search({ q: 'service', limit: 10 }, never)
  expect(namesOf({ entries })).toContain('honest')
  expect(entries.filter(({ url }) => url.startsWith('https://spam')).length).toBe(9)
  expect(entries[5]!.name).toBe('honest')
})

test('the same resource of two catalogs is one entry, and repeats of one catalog are counted', async () => {
  searchable('a', [item('weather'), item('weather')])
  searchable('b', [item('weather', { description: 'said in other words' })])
  const found = await sourcesOf(['a', 'b']).search({ q: 'weather' }, never)
  expect(found.entries).toMatchObject([{ sources: ['a', 'b'], listed: { price: '0.01' } }])
  expect(found.sources[0]).toMatchObject({ entries: 1, left_out: 1 })
})

test.each([
  ['a lower price', terms('1')],
  ['another account', terms('10000', { payTo: '0x2222222222222222222222222222222222222222' })],
  ['another network', terms('10000', { network: 'eip155:1' })],
])('T38: a catalog that says %s hides no entry of another, and does not speak for it', async (_, lie) => {
  searchable('a', [item('weather', { serviceName: 'weather, do not buy', accepts: [lie] })])
  searchable('b', [item('weather')])
  servers.set('https://weather.example', () => ask402())
  const sources = sourcesOf(['a', 'b'])
  const honest = { name: 'weather', sources: ['b'], state: 'live', buyable: true }
  expect((await sources.search({ q: 'weather', probe: true }, never)).entries).toMatchObject([honest])
  clock.advance(6 * MINUTE)
  const [shown, ...others] = (await sources.search({ q: 'weather' }, never)).entries
  expect(others).toEqual([])
  expect(await sources.probe(shown!.id, never)).toMatchObject(honest)
})

test('a price limit leaves out what is dearer, and what has no price in USDC', async () => {
  const far = { accepts: [terms('1', { network: 'eip155:1' })] }
  searchable('a', [item('dear', { accepts: [terms('20000')] }), item('cheap'), item('far', far)])
  const found = await sourcesOf(['a']).search({ q: 'service', max_price: 10_000n }, never)
  expect(namesOf(found)).toEqual(['cheap'])
})

test('a test asks now and says how it went; a stop ends what is under way', async () => {
  listed('a', [item('weather')])
  const sources = sourcesOf(['a', 'b'])
  expect(await sources.test('a', never)).toMatchObject({ name: 'a', state: 'ok', entries: 1, url: 'https://a.catalog' })
  expect(await sources.test('b', never)).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('ECONNREFUSED'),
  })
  await expect(sources.test('c', never)).rejects.toMatchObject({ code: 'UNKNOWN_SOURCE' })
  await expect(sources.search({ source: 'c' }, never)).rejects.toMatchObject({ code: 'UNKNOWN_SOURCE' })
  await expect(sources.probe(`url_${'0'.repeat(40)}`, never)).rejects.toMatchObject({ code: 'UNKNOWN_ENTRY' })
  await sources.service.stop()
  expect((await sources.search({ q: 'new' }, never)).entries).toEqual([])
})

test('a catalog with a search and without a list is tested by its search', async () => {
  searchable('a', [item('weather')])
  servers.set('https://a.catalog/x402/discovery/resources', () => ok('', 404))
  expect(await sourcesOf(['a']).test('a', never)).toMatchObject({ state: 'ok', way: 'search', entries: 1 })
})

test('without catalogs a search is empty', async () => {
  expect(await sourcesOf([]).search({ q: 'x', probe: true }, never)).toMatchObject({ entries: [], sources: [] })
})
