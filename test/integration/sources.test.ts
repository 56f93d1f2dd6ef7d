/** Catalogs beside the market: entries of a catalog that is made and read by the code of others. */
import { HTTPFacilitatorClient } from '@x402/core/http'
import { withBazaar } from '@x402/extensions/bazaar'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { createApiClient } from '../../src/http/client/client.ts'
import type { SourceResults } from '../../src/schema/source.ts'
import { call } from '../support/api-calls.ts'
import { catalogItem, startBazaar } from '../support/bazaar.ts'
import { type Answer, McpClients } from '../support/mcp-clients.ts'
import { startTestNode, type TestNode, type TestNodeOptions } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let seller: TestNode
let id: string
let item: Record<string, unknown>

beforeAll(async () => {
  devnet = await startDevnet()
  seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey, public: { port: 0 } })
  const definition = { name: 'Weather', description: 'Tells the weather', price: 10_000n, tags: ['weather'] }
  id = (await seller.node.registerAgent(definition, { persist: false, run: (task) => task })).id
  item = (await catalogItem(`${seller.publicUrl}/x402/${id}`))!
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
})

async function buyer(options: TestNodeOptions): Promise<TestNode> {
  const own = { buyer: { privateOrigins: [new URL(seller.publicUrl).origin] } }
  const node = await startTestNode({ devnet, walletKey: devnet.wallets.buyer.privateKey, ...own, ...options })
  onTestFinished(() => node.stop())
  return node
}
const apiOf = ({ url }: TestNode) => createApiClient({ baseUrl: url }, { fetch })

test.each([true, false])(
  'an x402 resource is found in a catalog and shown as buyable (search: %s)',
  async (hasSearch) => {
    const bazaar = await startBazaar([item], { hasSearch })
    // The client of the reference implementation reads the same catalog.
    const reference = withBazaar(new HTTPFacilitatorClient({ url: bazaar.url })).extensions.bazaar
    expect((await reference.listResources()).items).toMatchObject([{ resource: `${seller.publicUrl}/x402/${id}` }])

    const environment = { CATALOG_KEY: 'secret-of-catalog' }
    const source = { url: bazaar.url, name: 'bazaar', token_env: 'CATALOG_KEY', allow_private: 'true' as const }
    const node = await buyer({ sources: [source], environment })
    const api = apiOf(node)
    expect(await api.sources()).toMatchObject([{ name: 'bazaar', state: 'unasked' }])
    expect(bazaar.asked.length).toBe(1)
    expect(await api.testSource('bazaar')).toMatchObject({ state: 'ok', entries: 1 })
    const found = await api.searchSources({ q: 'weather', probe: true })
    expect(found.sources).toMatchObject([{ name: 'bazaar', ok: true, entries: 1 }])
    expect(found.entries).toMatchObject([
      {
        ...{ origin: 'catalog', method: 'POST', url: `${seller.publicUrl}/x402/${id}`, state: 'live', buyable: true },
        listed: { price: '0.01', network: 'eip155:84532' },
        expected: { price: '0.01', pay_to: devnet.wallets.seller.address },
      },
    ])
    expect(bazaar.asked.at(-1)!.authorization).toBe('Bearer secret-of-catalog')
    expect(JSON.stringify([found, await api.sources()])).not.toContain('secret-of-catalog')
    expect((await api.probeEntry(found.entries[0]!.id)).state).toBe('live')
  },
)

test('an entry is bought by its URL at its live terms, and what this node measured then shows', async () => {
  const bazaar = await startBazaar([item])
  const node = await buyer({
    sources: [{ url: bazaar.url, name: 'bazaar', allow_private: 'true' }],
  })
  const api = apiOf(node)
  const find = async () => (await api.searchSources({ q: 'weather', probe: true })).entries[0]!
  const { url, expected } = await find()
  const buy = async (changes: object) => {
    const body = JSON.stringify({ url, task: 'hello', expected: { ...expected, ...changes } })
    const answer = await fetch(`${node.url}/execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    return { status: answer.status, body: await answer.text() }
  }
  for (const changes of [{ price: '0.009' }, { pay_to: `0x${'2'.repeat(40)}` }, { network: 'eip155:8453' }]) {
    const refused = await buy(changes)
    expect(refused).toMatchObject({ status: 402, body: expect.stringContaining('nothing was signed') })
  }
  expect((await find()).stats).toBeUndefined()
  expect(await buy({})).toMatchObject({ status: 200, body: expect.stringContaining('hello') })
  expect((await find()).stats).toMatchObject({ calls: 1, success_rate: 1 })
})

test('T38: an entry is no agent: not in a list, not by its id or name, and to no peer', async () => {
  const bazaar = await startBazaar([item])
  const node = await buyer({ sources: [{ url: bazaar.url, allow_private: 'true' }], openai: { enabled: true } })
  const api = apiOf(node)
  const { entries } = await api.searchSources({ q: 'weather', probe: true })
  const entry = entries[0]!
  expect(entry.name ?? 'Weather').toBe('Weather')
  expect(await api.agents()).toEqual([])
  expect(node.node.listings()).toEqual([])
  for (const reference of [entry.id, 'Weather', entry.url, id]) {
    await expect(api.agent(reference)).rejects.toMatchObject({ code: 'UNKNOWN_AGENT' })
  }
  await expect(api.execute({ agentId: entry.id, input: 'x' })).rejects.toMatchObject({
    code: /UNKNOWN_AGENT|INVALID_REQUEST/,
  })
  const models = (await (await fetch(`${node.url}/v1/models`)).json()) as { data: { id: string }[] }
  expect(JSON.stringify(models.data)).not.toContain('Weather')
  const peer = await startTestNode({ bootstrap: node.node.addresses() })
  onTestFinished(() => peer.stop())
  await until(async () => (await peer.node.peers()).length > 0)
  expect(peer.node.listings()).toEqual([])
})

test('a node that knows the signed listing shows that, and not what a catalog says of it', async () => {
  const bazaar = await startBazaar([item])
  const node = await buyer({
    sources: [{ url: bazaar.url, allow_private: 'true' }],
    bootstrap: seller.node.addresses(),
  })
  await until(() => node.node.listings().length === 1)
  const found: SourceResults = await apiOf(node).searchSources({ q: 'weather' })
  expect(found).toMatchObject({ entries: [], sources: [{ ok: true, entries: 0, left_out: 1 }] })
})

test('a catalog in this network cannot name addresses of it unless config.yaml says so', async () => {
  const bazaar = await startBazaar([item])
  const found = await apiOf(await buyer({ sources: [{ url: bazaar.url }] })).searchSources({ q: 'weather' })
  expect(found).toMatchObject({ entries: [], sources: [{ ok: true, entries: 0, left_out: 1 }] })
})

test('an entry that stoa buy would refuse is not shown as buyable, and is not asked', async () => {
  const bazaar = await startBazaar([item])
  const node = await buyer({
    ...{ sources: [{ url: bazaar.url, name: 'bazaar', allow_private: 'true' }], buyer: { privateOrigins: [] } },
  })
  const [entry] = (await apiOf(node).searchSources({ q: 'weather', probe: true })).entries
  expect(entry).toMatchObject({ state: 'unpayable', buyable: false })
  expect(entry!.reason).toMatch(/buyer\.private_origins/)
  expect(entry).not.toHaveProperty('expected')
  const bought = await call(node.url, '/execute', { body: { url: entry!.url, task: 'x' } })
  expect(bought).toMatchObject({ status: 422, body: { code: 'URL_REFUSED' } })
  const metrics = await (await fetch(`${node.url}/metrics`)).text()
  expect(metrics).toMatch(/stoa_source_up\{source="bazaar"\} 1\n/)
  expect(metrics).toMatch(/stoa_source_entries\{source="bazaar"\} 1\n/)
  expect(metrics).toMatch(/stoa_source_failures_total\{source="bazaar"\} 0\n/)
})

test('the tool of MCP shows entries apart from agents, and says which catalog failed', async () => {
  const bazaar = await startBazaar([item])
  const node = await buyer({
    sources: [
      { url: bazaar.url, name: 'bazaar', allow_private: 'true' },
      { url: 'http://127.0.0.1:9/x402', name: 'gone' },
    ],
  })
  const clients = new McpClients()
  onTestFinished(() => clients.close())
  const client = await clients.overHttp(node.url, 'auto')
  const discover = async (args: object) =>
    ((await client.callTool({ name: 'discover_agents', arguments: { query: 'weather', ...args } })) as Answer)
      .structuredContent
  expect(await discover({})).not.toHaveProperty('catalog_entries')
  expect(await discover({ catalogs: true })).toMatchObject({
    agents: [],
    catalog_entries: [{ state: 'live', url: `${seller.publicUrl}/x402/${id}` }],
    catalogs: [
      { name: 'bazaar', ok: true },
      { name: 'gone', ok: false },
    ],
  })
})

test('a node with a source whose key is not set does not start, and says which', async () => {
  const start = startTestNode({ sources: [{ url: 'https://catalog.example', token_env: 'NOT_SET' }] })
  await expect(start).rejects.toThrow('sources: NOT_SET is not set')
})
