import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { fakeServer } from '../../test/support/fake-api.ts'
import { dashboardMount } from './dashboard.ts'

const home = mkdtempSync(join(tmpdir(), 'stoa-dashboard-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))
const directory = join(home, 'dashboard')
const html = '<!doctype html><title>built</title>'
const files = {
  'index.html': html,
  'index.html.gz': 'zipped',
  'assets/app-1.js': 'run()',
  'assets/app-1.js.br': 'small',
}
function build(place: string): void {
  mkdirSync(join(place, 'assets'), { recursive: true })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(place, name), text)
}
build(directory)
writeFileSync(join(home, 'secret.html'), 'secret')
const isBuilt = () => Promise.resolve()
const serve = (options = {}, place = directory, first = isBuilt) =>
  fakeServer({ mounts: [dashboardMount(place, first)] }, options).app
const headers = { host: '127.0.0.1:8424' }

test('what is not built says how to build it, and is found as soon as it is', async () => {
  const place = join(home, 'later')
  const app = serve({}, place)
  const before = await app.inject({ url: '/dashboard', headers })
  expect([before.statusCode, before.payload.includes('npm run build:dashboard')]).toEqual([503, true])
  build(place)
  expect((await app.inject({ url: '/dashboard', headers })).payload).toBe(html)
})

test('the first visit waits for the build of a checkout, and no later visit builds', async () => {
  const place = join(home, 'checkout')
  const first = vi.fn(async () => build(place))
  const app = serve({}, place, first)
  const visits = await Promise.all([1, 2].map(() => app.inject({ url: '/dashboard', headers })))
  expect(visits.map(({ payload }) => payload)).toEqual([html, html])
  expect(first).toHaveBeenCalledTimes(1)
})

test.each(['/dashboard', '/dashboard/', '/dashboard/market?q=x', '/api/dashboard/orders/1'])(
  '%s is the page, which is asked for anew each time and may load nothing from elsewhere',
  async (url) => {
    const app = serve()
    const first = await app.inject({ url, headers })
    expect(first.payload).toBe(html)
    expect(first.headers).toMatchObject({ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' })
    const policy = String(first.headers['content-security-policy'])
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toMatch(/unsafe|http|\*/)
    expect(first.headers['access-control-allow-origin']).toBeUndefined()
    const again = await app.inject({ url, headers: { ...headers, 'if-none-match': String(first.headers.etag) } })
    expect([again.statusCode, again.payload]).toEqual([304, ''])
  },
)

test('hashed files are kept for good, and come as small as the browser takes them', async () => {
  const app = serve()
  const ask = (url: string, accept: string) => app.inject({ url, headers: { ...headers, 'accept-encoding': accept } })
  const script = await ask('/dashboard/assets/app-1.js', 'gzip, deflate, br')
  expect(script.headers).toMatchObject({
    'content-encoding': 'br',
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'Accept-Encoding',
  })
  expect((await ask('/dashboard/assets/app-1.js', 'gzip')).payload).toBe('run()')
  expect((await ask('/dashboard', 'gzip')).payload).toBe('zipped')
  // The small forms have no address of their own.
  expect((await ask('/dashboard/index.html.gz', '')).payload).toBe(html)
  expect((await ask('/dashboard/assets/app-1.js.br', '')).statusCode).toBe(404)
  const gone = await ask('/dashboard/assets/app-0.js', 'br')
  expect([gone.statusCode, gone.headers['cache-control']]).toEqual([404, 'no-cache'])
})

test.each(['/dashboard/../secret.html', '/dashboard/%2e%2e/secret.html', '/dashboard/..%2fsecret.html'])(
  '%s leads nowhere else on the disk',
  async (url) => {
    expect((await serve().inject({ url, headers })).payload).not.toBe('secret')
  },
)

test('a newer build is taken up while the node runs', async () => {
  const place = join(home, 'rebuilt')
  build(place)
  const app = serve({}, place)
  expect((await app.inject({ url: '/dashboard', headers })).payload).toBe(html)
  writeFileSync(join(place, 'index.html'), 'newer')
  utimesSync(join(place, 'index.html'), 1, 1)
  expect((await app.inject({ url: '/dashboard', headers })).payload).toBe('newer')
})

test('D16 its files need no token, and still no foreign name', async () => {
  const app = serve({ host: '0.0.0.0' })
  expect((await app.inject({ url: '/dashboard', headers })).statusCode).toBe(200)
  expect((await app.inject({ url: '/dashboard', headers: { host: 'evil.example' } })).statusCode).toBe(403)
  expect((await serve().inject({ method: 'POST', url: '/dashboard', headers })).statusCode).toBe(405)
})
