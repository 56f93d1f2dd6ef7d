import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { createSiteReader } from './client-site.ts'

type Request = Parameters<ReturnType<typeof createSiteReader>['siteOf']>[0]

function from(remoteAddress: string, forwarded?: string): Request {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  return { socket: { remoteAddress } as IncomingMessage['socket'], headers }
}

test.each<[string, string[], Request, string]>([
  ['without proxies the header is not read', [], from('203.0.113.9', '198.51.100.1'), '203.0.113.9'],
  ['a stranger who is no proxy names nobody', ['10.0.0.1'], from('203.0.113.9', '198.51.100.1'), '203.0.113.9'],
  ['a proxy names its client', ['10.0.0.1'], from('10.0.0.1', '198.51.100.1'), '198.51.100.1'],
  ['the proxy adds to what a client made up', ['10.0.0.1'], from('10.0.0.1', '1.1.1.1, 198.51.100.1'), '198.51.100.1'],
  ['proxies in a row', ['10.0.0.0/8'], from('10.0.0.1', '1.1.1.1, 198.51.100.1, 10.9.9.9'), '198.51.100.1'],
  ['what is no address ends the row', ['10.0.0.1'], from('10.0.0.1', 'unknown'), '10.0.0.1'],
  ['an empty header', ['10.0.0.1'], from('10.0.0.1', ''), '10.0.0.1'],
  ['an IPv4 address on a socket of IPv6', ['10.0.0.1'], from('::ffff:10.0.0.1', '198.51.100.1'), '198.51.100.1'],
  ['a /64 of IPv6 is one site', ['::1'], from('::1', '2001:db8:1:2:3::4'), '2001:db8:1:2::/64'],
])('T36 %s', (_, proxies, request, site) => {
  expect(createSiteReader(proxies).siteOf(request)).toBe(site)
})

test('T36 a header of thousands of proxies is read from its end, and only some', () => {
  const long = `${'10.0.0.2, '.repeat(5_000)}10.0.0.2`
  expect(createSiteReader(['10.0.0.0/8']).siteOf(from('10.0.0.1', long))).toBe('10.0.0.2')
})
