import { expect, test } from 'vitest'
import { publicSettings } from './public-settings.ts'
import type { Settings } from './settings.ts'

const tls = { publicTlsCert: '/tls/cert.pem', publicTlsKey: '/tls/key.pem' }
const trustedProxies = ['127.0.0.1']

test.each<[string, Settings, RegExp]>([
  ['a certificate without a key', { publicTlsCert: '/c' }, /public\.tls_key is missing: public\.tls_cert needs it/],
  ['a key without a certificate', { publicTlsKey: '/k' }, /public\.tls_cert is missing: public\.tls_key needs it/],
  [
    'https without TLS',
    { publicPort: 1, publicDoorUrl: 'https://a.example' },
    /https:\/\/a\.example needs TLS.*Set public\.tls_cert and public\.tls_key, or .*public\.trusted_proxies/,
  ],
  [
    'http with TLS',
    { publicPort: 1, publicDoorUrl: 'http://a.example', ...tls },
    /must begin with https:\/\/, because public\.tls_cert is set/,
  ],
])('%s is refused', (_, settings, message) => {
  expect(() => publicSettings(settings)).toThrow(message)
})

test.each<[string, Settings]>([
  ['own TLS', { publicPort: 1, publicDoorUrl: 'https://a.example', ...tls }],
  ['TLS of a proxy', { publicPort: 1, publicDoorUrl: 'https://a.example', trustedProxies }],
  ['TLS of a proxy, and to it', { publicPort: 1, publicDoorUrl: 'https://a.example', trustedProxies, ...tls }],
  ['neither', { publicPort: 1, publicDoorUrl: 'http://a.example' }],
  ['a listener that is closed', { publicDoorUrl: 'https://a.example' }],
])('%s is taken', (_, settings) => {
  expect(publicSettings(settings).url).toBe(settings.publicDoorUrl)
})
