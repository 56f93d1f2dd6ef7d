/** T38: catalogs and resources that are hostile, over real connections. */
import { createServer, type RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import { beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { createGuardedRequest } from '../../src/lib/guarded-request.ts'
import { assets } from '../../src/payments/assets.ts'
import type { SourceResults } from '../../src/schema/source.ts'
import { createSources, type SourcesDeps } from '../../src/sources/sources.ts'
import { cli, runningNode, useDataDir } from '../cli/harness.ts'
import { startServer } from '../support/bazaar.ts'

const dataDir = useDataDir()
const own = assets['eip155:84532']
const never = new AbortController().signal
const terms = {
  ...{ scheme: 'exact', network: own.network, asset: own.address, amount: '10000' },
  payTo: '0x1111111111111111111111111111111111111111',
}
const item = (resource: string, changes = {}) => ({
  ...{ resource, type: 'http', x402Version: 2, accepts: [terms], lastUpdated: 0, serviceName: 'service' },
  ...changes,
})
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
const ask402 = encoded({ x402Version: 2, accepts: [terms] })

let hits: number
beforeEach(() => {
  hits = 0
})
/** A server of this network that nobody may reach through a catalog. */
const hidden = () =>
  startServer(
    createServer((_, response) => {
      hits++
      response.writeHead(402, { 'payment-required': ask402 }).end()
    }),
  )

function search(url: string, allowPrivate: boolean, changes: Partial<SourcesDeps> = {}): Promise<SourceResults> {
  const sources = createSources([{ name: 'a', url, headers: { authorization: 'Bearer key' }, allowPrivate }], {
    ...{ clock: systemClock, asset: own, ownUrls: () => [], isListed: () => false, bearing: () => [] },
    outside: createGuardedRequest({ publicOnly: true }),
    anywhere: createGuardedRequest({ publicOnly: false }),
    purchases: { refusalOf: () => undefined, isOwn: () => true },
    measured: () => undefined,
    ...changes,
  })
  return sources.search({ q: 'service', probe: true }, never)
}
const catalog = (listener: RequestListener) => startServer(createServer(listener))
const catalogOf = (...items: unknown[]) => catalog((_, response) => response.end(JSON.stringify({ resources: items })))

const piece = ' '.repeat(64 * 1024)
test.each<[string, (sent: (bytes: number) => void) => RequestListener, RegExp]>([
  [
    'an answer that never ends',
    (sent) => (_, response) => {
      response.write('{"items":[')
      const more = () => {
        while (!response.destroyed && sent(piece.length) === undefined && response.write(piece));
      }
      response.on('drain', more)
      more()
    },
    /more than 2097152 bytes/,
  ],
  [
    'an answer that says that it is huge',
    () => (_, response) => response.writeHead(200, { 'content-length': `${50 * 1024 ** 3}` }).write('{'),
    /more than 2097152 bytes/,
  ],
  [
    'a small answer that unpacks to 50 MiB',
    () => (_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(50 * 1024 * 1024, 32))),
    /not JSON/,
  ],
  ['a million levels of JSON', () => (_, response) => response.end('['.repeat(1_000_000)), /nested deeper than/],
  [
    'headers of 100 kB',
    () => (_, response) => response.writeHead(200, { 'x-large': 'x'.repeat(100_000) }).end('{"items":[]}'),
    /[Hh]eaders/,
  ],
  ['a connection that breaks', () => (request) => request.socket.destroy(), /socket|closed/],
  [
    'one byte a while',
    () => (_, response) => {
      response.write('{')
      const timer = setInterval(() => response.write(' '), 50)
      response.on('close', () => clearInterval(timer))
    },
    /did not answer in 6 s/,
  ],
])('T38: a catalog that sends %s gives nothing but a reason', async (_, listener, reason) => {
  let bytes = 0
  const url = await catalog(
    listener((count) => {
      bytes += count
    }),
  )
  const found = await search(url, true)
  expect(found.entries).toEqual([])
  expect(found.sources[0]!.error).toMatch(reason)
  expect(bytes).toBeLessThan(64 * 1024 * 1024)
})

test('T38: a catalog that sends to an address of this network is not followed, and its key goes nowhere', async () => {
  const target = await hidden()
  for (const status of [301, 302, 303, 307, 308]) {
    const url = await catalog((_, response) => response.writeHead(status, { location: `${target}/latest` }).end())
    expect((await search(url, true)).sources[0]!.error).toMatch(/not followed/)
  }
  expect(hits).toBe(0)
})

test('T38: no spelling of an address of this network is asked for a catalog', async () => {
  const { port } = new URL(await hidden())
  const hosts = [
    ...['127.0.0.1', 'localhost', '2130706433', '0x7f000001', '0177.0.0.1', '127.1', '0.0.0.0', '[::1]'],
    ...['[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]', '①②⑦.0.0.1', 'localhost.', '169.254.169.254'],
  ]
  const urls = hosts.flatMap((host) => [
    `https://${host}:${port}/`,
    `http://${host}:${port}/`,
    `http://u@${host}:${port}/`,
  ])
  const found = await search(await catalogOf(...urls.map((url) => item(url))), false)
  expect(found.entries).toEqual([])
  expect(found.sources[0]).toMatchObject({ ok: true, left_out: urls.length })
  expect(hits).toBe(0)
})

test('T38: a name that leads to an address of this network is not connected', async () => {
  const { port } = new URL(await hidden())
  const outside = createGuardedRequest({ publicOnly: true })
  for (const host of ['localhost', '127.0.0.1', '[::1]', '2130706433', '[::ffff:7f00:1]']) {
    const asked = { method: 'GET', headers: {}, signal: never, bytesMax: 100 } as const
    await expect(outside(`http://${host}:${port}/`, asked)).rejects.toMatchObject({ code: 'ADDRESS_NOT_PUBLIC' })
  }
  expect(hits).toBe(0)
})

test.each<[string, RequestListener, RegExp]>([
  [
    'a page that never ends',
    (_, response) => {
      const more = () => {
        while (!response.destroyed && response.write(piece));
      }
      response.writeHead(402)
      response.on('drain', more)
      more()
    },
    /too large/,
  ],
  [
    'terms of 60 kB in a header',
    (_, response) => {
      response.writeHead(402, { 'payment-required': 'A'.repeat(60_000) }).end()
    },
    /cannot be reached/,
  ],
  [
    'terms that are no base64',
    (_, response) => {
      response.writeHead(402, { 'payment-required': '{"x402Version":2}' }).end()
    },
    /no terms/,
  ],
  [
    'a price of 1e99',
    (_, response) => {
      response
        .writeHead(402, { 'payment-required': encoded({ x402Version: 2, accepts: [{ ...terms, amount: 1e99 }] }) })
        .end()
    },
    /no price/,
  ],
  [
    'a redirect to another payee',
    (_, response) => {
      response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()
    },
    /status 307/,
  ],
])('T38: a resource that answers with %s is dead or unpayable', async (_, listener, reason) => {
  const resource = await catalog(listener)
  const { entries } = await search(await catalogOf(item(resource)), true)
  expect(entries[0]).toMatchObject({ buyable: false, reason: expect.stringMatching(reason) })
})

test('T38: a probe carries no key of the catalog, and sends no task', async () => {
  const seen: object[] = []
  const resource = await catalog(({ headers, method }, response) => {
    seen.push({ method, authorization: headers.authorization, length: headers['content-length'] })
    response.writeHead(402, { 'payment-required': ask402 }).end()
  })
  const post = { extensions: { bazaar: { info: { input: { type: 'http', method: 'POST', body: { all: 'of it' } } } } } }
  const found = await search(await catalogOf(item(resource), item(`${resource}/post`, post)), true)
  expect(found.entries.map(({ state }) => state)).toEqual(['live', 'live'])
  expect(seen).toContainEqual({ method: 'GET', authorization: undefined, length: undefined })
  expect(seen).toContainEqual({ method: 'POST', authorization: undefined, length: '2' })
})

test('T38: hostile texts of entries reach no terminal, and entries stand under a heading of their own', async () => {
  const evil = '\u001b[2J\u001b]0;owned\u0007Stoa\u202eCDSU 0\u2066\nseller  12D3KooW'
  const entry = item('https://evil.example/\u202e', { serviceName: evil, description: evil, tags: [evil] })
  const found = await search(await catalogOf(entry), false, { outside: () => Promise.reject(new Error(evil)) })
  const raw = { ...found.entries[0]!, name: evil, reason: evil, description: evil, sources: ['a'] }
  const hostile: SourceResults = {
    ...found,
    entries: [found.entries[0]!, raw],
    sources: [{ name: 'a', ok: false, entries: 0, error: evil }],
  }
  const { parts } = await runningNode(dataDir(), { agents: async () => [], searchSources: async () => hostile })
  const run = await cli(['agent', 'discover', 'x', '--sources'], {
    dataDir: dataDir(),
    parts,
    tty: true,
    environment: { NO_COLOR: '1' },
  })
  expect(run.stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Bidi_Control}]/u)
  expect(run.stdout).toMatch(/2 entries of catalogs {2}no seller signed them/)
  expect(run.stdout.split('\n').filter((line) => /^ {2}seller/.test(line))).toEqual([])
  expect(JSON.stringify(found)).not.toMatch(/\\u001b|\u202e/)
})
