import { expect, test } from 'vitest'
import type { Listing } from '../../src/schema/listing.ts'
import type { AgentQuery } from '../../src/schema/search.ts'
import { cli, fakeNode, listing, peerId, runningNode, status, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const other = '12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7zxWSUEeF27st'

/** A running node whose market has so many agents, and what was asked of it. */
async function node(count: number, fields: Partial<Listing> = {}) {
  const asked: AgentQuery[] = []
  const { parts } = await runningNode(dataDir(), {
    searchAgents: async (query = {}) => {
      asked.push(query)
      const from = Number(query.cursor ?? 0)
      const until = Math.min(count, from + (query.limit ?? 500))
      const items = Array.from({ length: until - from }, (_, n) => listing({ name: `Agent ${from + n}`, ...fields }))
      return { items, next: until < count ? String(until) : undefined }
    },
  })
  const run = (...argv: string[]) => cli(['agent', 'discover', ...argv], { dataDir: dataDir(), parts })
  return { asked, run }
}

test('the query and its limits reach the node unchanged', async () => {
  const { asked, run } = await node(1)
  const flags = ['--max-price', '0.01', '--tag', 'legal', '--tag', 'de', '--free', '--online', '--sort', 'price']
  const { code } = await run('summarize a contract', ...flags, '--seller', peerId, '--limit', '7', '--explain')
  expect(code).toBe(0)
  const words = {
    include: 'stats',
    q: 'summarize a contract',
    max_price: 10_000n,
    tags: ['legal', 'de'],
    seller_id: peerId,
  }
  expect(asked).toEqual([{ ...words, free: true, online: true, sort: 'price', limit: 7, explain: true }])
})

test('a query shows the best matches and a note about more; without a query all pages are shown', async () => {
  const { asked, run } = await node(1200)
  const best = await run('agent')
  expect(best.stdout).toMatch(/^20 agents {2}TEST\n/)
  expect(best.stdout).toMatch(/there are more agents: raise --limit/)
  asked.length = 0
  const all = await run('--json')
  expect(JSON.parse(all.stdout)).toHaveLength(1200)
  expect(asked.map(({ limit, cursor }) => [limit, cursor])).toEqual([
    [500, undefined],
    [500, '500'],
    [500, '1000'],
  ])
  expect(JSON.parse((await run('--limit', '600', '--json')).stdout)).toHaveLength(600)
})

test('a look-alike is marked, with the seller of the original', async () => {
  const original = { id: 'a'.repeat(32), name: 'Acme\u001b[31m', seller_id: other }
  const { run } = await node(1, { name: 'Аcme', look_alike_of: original })
  const { stdout } = await run()
  expect(stdout).toContain('beware  easily confused with “Acme\ufffd[31m” of another seller:')
  expect(stdout).toContain(other)
  expect(JSON.parse((await run('--json')).stdout)[0].look_alike_of).toEqual(original)
})

test('--explain shows the points and their reasons', async () => {
  const reasons = [
    { signal: 'text', points: 0.56, detail: '“contract” in its name' },
    { signal: 'look_alike', points: -0.15, detail: 'looks like an older listing of another seller' },
  ] as const
  const { run } = await node(1, { ranking: { score: 0.41, reasons: [...reasons] } })
  const { stdout } = await run('contract', '--explain')
  expect(stdout).toContain('why     ')
  expect(stdout).toMatch(/\+0\.560 +text +“contract” in its name/)
  expect(stdout).toMatch(/−0\.150 +look alike +looks like/)
})

test('text fits 80 columns; ids and addresses are never cut', async () => {
  const long = { name: 'Very long name '.repeat(5).trim(), description: 'x'.repeat(4000), model: 'm'.repeat(200) }
  const detail = 'y'.repeat(300)
  const ranking = { score: 1, reasons: [{ signal: 'text', points: 1, detail } as const] }
  const { run } = await node(2, { ...long, price: 999_999_123_456n, online: true, latency_ms: 12.7, ranking })
  const { stdout } = await run('x', '--explain')
  expect(stdout).toMatch(/999999\.123456 USDC {2}online, 13 ms/)
  for (const line of stdout.split('\n').filter((text) => !/^ {2}(at|seller|id) /.test(text)))
    expect([...line].length).toBeLessThanOrEqual(80)
})

test.each([
  [['--max-price', 'cheap'], '--max-price'],
  [['--sort', 'best'], '--sort'],
  [['--limit', '0'], '--limit'],
  [['--seller', 'me'], '--seller'],
  [['--tag', 'x'.repeat(33)], '--tag'],
  [['x'.repeat(401)], 'the query'],
])('%j is refused before a node is asked', async (argv, named) => {
  const { asked, run } = await node(1)
  expect(await run(...argv)).toMatchObject({ code: 2, stderr: expect.stringContaining(`error: ${named}`) })
  expect(asked).toEqual([])
})

test('an empty result says what to try', async () => {
  const { run } = await node(0)
  expect((await run('nothing')).stdout).toBe('no agents found: try fewer words or filters\n')
  expect((await run()).stdout).toBe('no agents found\n')
})

test('D43: if no peer was met, discover says what it tried and what to do', async () => {
  const tried = ['2 bootstrap peers', 'the local network']
  const search = { met: 0, tried, fix: 'check that the bootstrap address is right' }
  const found = { searchAgents: async () => ({ items: [], next: undefined }) }
  const running = await runningNode(dataDir(), { ...found, status: async () => ({ ...status, search }) })
  const discover = (parts: object, ...argv: string[]) =>
    cli(['agent', 'discover', ...argv], { dataDir: dataDir(), parts })
  expect((await discover(running.parts)).stdout).toBe(
    'no agents found: no peers found yet; tried: 2 bootstrap peers, the local network. What to do: check that the bootstrap address is right\n',
  )
  const met = await runningNode(dataDir(), { ...found, status: async () => ({ ...status, search: { met: 1, tried } }) })
  expect((await discover(met.parts)).stdout).toBe('no agents found\n')
})

test('D43: if the temporary node met no peer, discover says what it tried and what to do', async () => {
  const fix = 'check that the bootstrap address is right'
  const { parts } = fakeNode({
    listings: () => [],
    status: async () => ({ search: { met: 0, tried: ['the local network'], fix } }),
  })
  const discover = async (...argv: string[]) =>
    (await cli(['agent', 'discover', '--wait', '1', ...argv], { dataDir: dataDir(), parts })).stdout
  expect(await discover()).toMatch(
    /--bootstrap <multiaddr> .* under Share\), or listen longer with --wait 60 \(tried: the local network\)/,
  )
  expect(await discover('--bootstrap', '/dnsaddr/boot.example')).toContain(`What to do: ${fix}`)
})

test('if the temporary node knows agents, discover says that none of them matches', async () => {
  const market = { find: () => undefined, page: () => ({ items: [], next: undefined }) }
  const { parts } = fakeNode({ market, status: async () => ({ search: { met: 1, tried: ['the local network'] } }) })
  const discover = async (...argv: string[]) =>
    (await cli(['agent', 'discover', ...argv], { dataDir: dataDir(), parts })).stdout
  expect(await discover('nothing')).toBe('no agents found among the 1 known agent: try fewer words or filters\n')
  expect(await discover()).toContain('--any-network also shows agents on other networks')
})

test('if peers sent no valid listing, discover suggests a wrong clock and not another peer', async () => {
  const met = { search: { met: 2, tried: ['the local network'] } }
  const { parts } = fakeNode({ listings: () => [], status: async () => met })
  const { stdout } = await cli(['agent', 'discover', '--wait', '1'], { dataDir: dataDir(), parts })
  expect(stdout).toContain('2 peers answered, but they sent no valid listing')
  expect(stdout).toContain('stoa doctor')
  expect(stdout).not.toContain('--bootstrap')
})

test('without a running node the query goes to a temporary node', async () => {
  const asked: AgentQuery[] = []
  const market = {
    find: () => undefined,
    page(query: AgentQuery) {
      asked.push(query)
      const measured = { calls: 3, success_rate: 2 / 3, p50_ms: 340, p95_ms: 1_250, last_seen: null }
      const stats = { ...measured, settled_volume: '0.03', settled_volume_atomic: '30000' }
      return { items: [listing({ online: false, stats })], next: undefined }
    },
  }
  const { seen, parts } = fakeNode({ market })
  const run = await cli(['agent', 'discover', 'echo', '--free'], { dataDir: dataDir(), parts })
  expect(run.stdout).toContain('Echo  0.01 USDC  offline  builtin/echo')
  expect(run.stdout).toContain('used    3 calls, 66 % succeeded, 340 ms (95 %: 1.3 s), 0.03 USDC settled')
  expect(asked).toEqual([{ include: 'stats', q: 'echo', free: true, limit: 20 }])
  expect(seen.calls).toEqual(['start', 'stop'])
})

test('an interrupted start finishes before its node is stopped', async () => {
  const stop = new AbortController()
  const order: string[] = []
  const { parts } = fakeNode({
    async start() {
      stop.abort()
      await new Promise((resolve) => setImmediate(resolve))
      order.push('started')
    },
    async stop() {
      order.push('stopped')
    },
  })
  const run = await cli(['agent', 'discover'], { dataDir: dataDir(), parts, signal: stop.signal })
  expect(run.code).toBe(130)
  expect(order).toEqual(['started', 'stopped'])
})
