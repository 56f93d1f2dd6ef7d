import { expect, test } from 'vitest'
import type { Source, SourceResults } from '../../src/schema/source.ts'
import { cli, fakeNode, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const cdp: Source = { name: 'cdp', url: 'https://api.example', state: 'unasked', allow_private: false, failures: 0 }
const failed: Source = { ...cdp, name: 'other', state: 'failed', latency_ms: 12, error: 'it answers with status 500' }
const found: SourceResults = {
  entries: [
    {
      ...{ id: `url_${'0'.repeat(40)}`, origin: 'catalog', sources: ['cdp'], type: 'http', method: 'POST' },
      ...{
        url: "https://weather.example/now?it=';reboot;'",
        name: 'Weather',
        description: 'Of today',
        tags: [],
        score: 1,
      },
      listed: {
        price: '0.02',
        price_atomic: '20000',
        network: 'eip155:84532',
        pay_to: '0x1111111111111111111111111111111111111111',
      },
      ...{ state: 'live', buyable: true, latency_ms: 120, claims: { payers_30_days: 12 } },
      expected: {
        price: '0.01',
        asset: '0x',
        network: 'eip155:84532',
        pay_to: '0x1111111111111111111111111111111111111111',
      },
    },
    {
      ...{ id: `url_${'1'.repeat(40)}`, origin: 'catalog', sources: ['cdp'], type: 'http', method: 'GET' },
      ...{
        url: 'https://gone.example/',
        tags: [],
        score: 0,
        state: 'dead',
        buyable: false,
        reason: 'it answers with status 404',
      },
      look_alike_of: { id: 'abcdefghijklmnop', name: 'Weather', seller_id: 'x' },
    },
  ],
  sources: [
    { name: 'cdp', ok: true, entries: 2 },
    { name: 'other', ok: false, entries: 0, error: 'it did not answer in 6 s', age_seconds: 61 },
  ],
  notice: 'data',
}

test('source list shows the catalogs, and says what to do without one', async () => {
  const { parts } = await runningNode(dataDir(), { sources: async () => [cdp, failed] })
  const run = await cli(['source', 'list'], { dataDir: dataDir(), parts })
  expect(run.stdout).toMatch(/cdp +unasked +https:\/\/api\.example\n/)
  expect(run.stderr).toContain('other: it answers with status 500')
  const none = await runningNode(dataDir(), { sources: async () => [] })
  expect((await cli(['source', 'list'], { dataDir: dataDir(), parts: none.parts })).stdout).toBe(
    'no catalogs: add one under `sources` in config.yaml\n',
  )
})

test('source test asks one or all, and fails if one fails', async () => {
  const asked: string[] = []
  const testSource = async (name: string) => {
    asked.push(name)
    return name === 'cdp' ? { ...cdp, state: 'ok' as const, entries: 7 } : failed
  }
  const { parts } = await runningNode(dataDir(), { sources: async () => [cdp, failed], testSource })
  expect(await cli(['source', 'test', 'cdp'], { dataDir: dataDir(), parts })).toMatchObject({ code: 0 })
  const all = await cli(['source', 'test'], { dataDir: dataDir(), parts })
  expect(all.code).not.toBe(0)
  expect(all.stderr).toContain('other: it answers with status 500')
  expect(asked).toEqual(['cdp', 'cdp', 'other'])
})

test('agent discover --sources shows entries apart from agents, and which catalog failed', async () => {
  const queries: unknown[] = []
  const searchSources = async (query: unknown) => {
    queries.push(query)
    return found
  }
  const { parts } = await runningNode(dataDir(), { searchSources })
  const run = await cli(['agent', 'discover', 'weather', '--sources', '--max-price', '0.5'], {
    dataDir: dataDir(),
    parts,
  })
  expect(queries).toEqual([{ q: 'weather', max_price: 500_000n, probe: true }])
  const [agents, entries] = run.stdout.split('2 entries of catalogs')
  expect(agents).toContain('1 agent')
  expect(agents).not.toContain('https://weather.example')
  expect(entries).toContain(
    'catalog  Weather  0.01 USDC  answers, 120 ms\n  url     POST https://weather.example/now?it=',
  )
  expect(entries).toContain(
    'buy     stoa buy \'https://weather.example/now?it=%27;reboot;%27\' --task "…" --max-price 0.01 --pay-to 0x1111111111111111111111111111111111111111\n',
  )
  expect(entries).toContain('other failed: it did not answer in 6 s; what it said 2 min ago is shown')
  expect(entries).toContain('claims  12 payers in 30 days (as the catalog says)')
  expect(entries).toContain('not buyable: it answers with status 404')
  expect(entries).toContain('beware  easily confused')
  const json = JSON.parse(
    (await cli(['agent', 'discover', 'weather', '--sources', '--json'], { dataDir: dataDir(), parts })).stdout,
  )
  expect(json).toMatchObject({ agents: [{}], catalogs: { entries: [{}, {}] } })
  const plain = await cli(['agent', 'discover', 'weather', '--json'], { dataDir: dataDir(), parts })
  expect(JSON.parse(plain.stdout)).toHaveLength(1)
})

test('without a running node the temporary node searches the catalogs', async () => {
  const { parts } = fakeNode({ sources: { search: async () => found } })
  const run = await cli(['agent', 'discover', 'weather', '--sources', '--wait', '1'], { dataDir: dataDir(), parts })
  expect(run.stdout).toContain('2 entries of catalogs')
})
