import { expect, test } from 'vitest'
import { fakeServer } from '../../../test/support/fake-api.ts'
import { ann, bob, me, searchedMarket } from '../../../test/support/searched-market.ts'
import { createApiClient } from '../client/client.ts'

const X402 = '/x402/libp2p/1.0.0'

/** The API over a real search, without a socket. */
async function api(count = 0) {
  const market = searchedMarket()
  await market.list(me, ['Own Legal Agent'], { tags: ['legal'] })
  await market.list(ann, ['Contract Summary'], { price_atomic: 10_000n, protocols: [X402], tags: ['legal', 'text'] })
  await market.list(
    bob,
    Array.from({ length: count }, (_, n) => `Bulk ${n}`),
  )
  const { app } = fakeServer({ market: market.search })
  const get = async (url: string) => {
    const response = await app.inject(url)
    return { status: response.statusCode, link: response.headers.link, body: response.json() }
  }
  const named = async (url: string) => (await get(url)).body.map(({ name }: { name: string }) => name)
  return { market, app, get, named }
}

test('D13 GET /agents is a plain array of all, without a Link where that is all', async () => {
  const { get, named } = await api()
  for (const prefix of ['', '/api']) {
    expect((await named(`${prefix}/agents`)).toSorted()).toEqual(['Contract Summary', 'Own Legal Agent'])
    expect((await get(`${prefix}/agents`)).link).toBeUndefined()
    expect(await named(`${prefix}/agents/local`)).toEqual(['Own Legal Agent'])
    expect(await named(`${prefix}/agents/discover`)).toEqual(['Contract Summary'])
  }
})

test('the parameters limit, sort and explain', async () => {
  const { get, named } = await api()
  expect(await named('/agents?q=summarize%20a%20contract')).toEqual(['Contract Summary'])
  expect(await named('/agents?tags=legal,text')).toEqual(['Contract Summary'])
  expect(await named('/agents?tags=legal&tags=text')).toEqual(['Contract Summary'])
  expect(await named('/agents?free=true')).toEqual(['Own Legal Agent'])
  expect(await named('/agents?max_price=0.009')).toEqual(['Own Legal Agent'])
  expect(await named('/agents?max_price=0.01&free=false')).toEqual(['Contract Summary'])
  expect(await named(`/agents?seller_id=${ann}`)).toEqual(['Contract Summary'])
  expect(await named(`/agents?protocol=${encodeURIComponent('/node/marketplace/1.0.0')}`)).toEqual(['Own Legal Agent'])
  expect(await named('/agents?sort=price')).toEqual(['Own Legal Agent', 'Contract Summary'])
  expect(await named('/agents/discover?tags=legal')).toEqual(['Contract Summary'])
  const { body } = await get('/agents?q=contract&explain=true')
  expect(body[0].ranking.reasons[0]).toEqual({ signal: 'text', points: 0.56, detail: '“contract” in its name' })
  expect(body[0]).toMatchObject({ first_seen: '2026-01-01T00:00:00.000Z' })
})

test('more than fits one answer is linked, page by page, under either prefix, and a page may read the link', async () => {
  const { app, market } = await api(700)
  for (const start of [
    '/agents',
    '/api/agents?limit=90&free=true',
    '/agents?q=bulk&limit=200',
    '/agents?tags=test&tags=test',
  ]) {
    const ids = new Set<string>()
    let count = 0
    for (let url: string | undefined = start; url !== undefined; ) {
      const response: Awaited<ReturnType<typeof app.inject>> = await app.inject({
        url,
        headers: { origin: 'https://page.example' },
      })
      expect(response.statusCode).toBe(200)
      expect(response.headers['access-control-expose-headers']).toContain('link')
      for (const { id } of response.json()) ids.add(id)
      count += response.json().length
      const target: string | undefined = /^<(.*)>; rel="next"$/.exec(String(response.headers.link ?? ''))?.[1]
      const next: URL | undefined = target === undefined ? undefined : new URL(target, `http://node${url}`)
      url = next && next.pathname + next.search
    }
    expect(count).toBe(ids.size)
    expect(ids.size).toBeGreaterThanOrEqual(700)
  }
  expect(market.search.page({}).items).toHaveLength(500)
})

test('T3 a look-alike is marked wherever it is shown', async () => {
  const { market, get } = await api()
  market.clock.advance(1)
  const [fake] = await market.list(bob, ['Contrаct Sumrnary'])
  const original = { name: 'Contract Summary', seller_id: ann }
  expect((await get(`/agents/${fake!.id}`)).body.look_alike_of).toMatchObject(original)
  const shown = (await get('/agents')).body.find(({ id }: { id: string }) => id === fake!.id)
  expect(shown.look_alike_of).toMatchObject(original)
})

test.each([
  ['limit=0', 'limit'],
  ['limit=501', 'limit'],
  ['limit=1e2', 'limit'],
  ['limit=-1', 'limit'],
  ['max_price=1e-7', 'max_price'],
  ['max_price=-1', 'max_price'],
  ['max_price=NaN', 'max_price'],
  ['max_price=99999999999999999999999999999999999999999', 'max_price'],
  ['free=maybe', 'free'],
  ['online=1', 'online'],
  ['sort=cheapest', 'sort'],
  ['seller_id=me', 'seller_id'],
  ['q=a&q=b', 'q'],
  [`q=${'x'.repeat(401)}`, 'q'],
  [`tags=${'x'.repeat(33)}`, 'tags[0]'],
  [`tags=${'a,'.repeat(17)}`, 'tags'],
  [`${'tags=a&'.repeat(1500)}`, 'tags'],
  [`protocol=${'x'.repeat(129)}`, 'protocol'],
  [`cursor=${'x'.repeat(513)}`, 'cursor'],
])('T8 %.40s is refused with its name', async (query, path) => {
  const { get } = await api()
  expect((await get(`/agents?${query}`)).body).toMatchObject({
    status: 400,
    code: 'INVALID_REQUEST',
    errors: [{ path }],
  })
})

test.each(['x', 'AAAA', '%00', '..%2f', encodeURIComponent('{"order":"rank"}')])(
  'T8 the cursor %s is refused',
  async (cursor) => {
    const { get } = await api()
    expect((await get(`/agents?cursor=${cursor}`)).body).toMatchObject({ status: 400, code: 'CURSOR_INVALID' })
  },
)

test('T8 ten thousand tags do not fit a request', async () => {
  const { app } = await api()
  const response = await app.inject(`/agents?${'tags=abc&'.repeat(10_000)}`)
  expect(response.statusCode).toBeGreaterThanOrEqual(400)
  expect(response.statusCode).toBeLessThan(500)
})

test.each([
  '%22',
  '%22%22%22',
  'a%22%20OR%20%22b',
  'name%3Acontract',
  '*',
  '%27%3B%20DROP%20TABLE%20listings%3B%20--',
  'NEAR(contract%20summary%2C%201)',
  'contract%20NOT%20summary',
  '%00contract',
  '%ED%A0%80',
  '%EF%BF%BD',
  '%F0%9F%A4%96',
  '%EE%80%80free',
  '__proto__',
  'constructor',
  'x'.repeat(400),
  'a%20'.repeat(199),
])('T10 q=%.50s is nothing but words', async (q) => {
  const { get } = await api()
  for (const more of ['', '&sort=price', '&explain=true']) {
    const { status, body } = await get(`/agents?q=${q}${more}`)
    expect(status).toBe(200)
    expect(Array.isArray(body)).toBe(true)
  }
  expect((await get('/agents')).body).toHaveLength(2)
})

test('the client searches, and follows pages by their cursor', async () => {
  const { app } = await api(5)
  const inject = async (input: string | URL | Request) => {
    const { pathname, search } = new URL(String(input))
    const response = await app.inject(pathname + search)
    return new Response(response.body, {
      status: response.statusCode,
      headers: response.headers as Record<string, string>,
    })
  }
  const client = createApiClient({ baseUrl: 'http://127.0.0.1:8424' }, { fetch: inject as typeof fetch })
  const page = await client.searchAgents({ q: 'bulk', max_price: 10_000n, tags: ['test'], limit: 2 })
  expect(page.items).toHaveLength(2)
  const rest = await client.searchAgents({ q: 'bulk', max_price: 10_000n, tags: ['test'], limit: 9, cursor: page.next })
  expect(rest.items).toHaveLength(3)
  expect(rest.next).toBeUndefined()
  expect((await client.searchAgents()).items).toHaveLength(7)
})

test('T11 what this node has bought, and how that went, is not for pages of other sites', async () => {
  const { app } = await api()
  const headers = { origin: 'https://evil.example' }
  const plain = await app.inject({ url: '/agents?q=contract', headers })
  expect([plain.statusCode, plain.headers['access-control-allow-origin']]).toEqual([200, '*'])
  const { id } = plain.json()[0]
  for (const url of ['/agents?include=stats', '/api/agents/discover?%69nclude=stats', `/agents/${id}?include=stats`]) {
    const asked = await app.inject({ url, headers })
    expect([asked.statusCode, asked.headers['access-control-allow-origin']]).toEqual([403, undefined])
    expect((await app.inject(url)).headers['access-control-allow-origin']).toBeUndefined()
  }
  expect((await app.inject({ url: '/agents?q=contract&explain=true', headers })).statusCode).toBe(403)
  const own = { origin: 'http://localhost:3000' }
  expect((await app.inject({ url: '/agents?include=stats', headers: own })).statusCode).toBe(200)
})
