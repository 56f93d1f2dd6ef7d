import { generateKeyPairSync, verify } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { cdpHeaders, facilitatorHeaders } from './facilitator-token.ts'

const ed25519 = generateKeyPairSync('ed25519')
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const seed = Buffer.from(ed25519.privateKey.export({ format: 'jwk' }).d!, 'base64url')
const point = Buffer.from(ed25519.publicKey.export({ format: 'jwk' }).x!, 'base64url')

const part = (text: string) => JSON.parse(Buffer.from(text, 'base64url').toString())

describe('D34 the token of a CDP facilitator', () => {
  test.each([
    ['Ed25519', Buffer.concat([seed, point]).toString('base64'), 'EdDSA'],
    ['P-256', p256.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string, 'ES256'],
  ])('is signed with a key of %s, for one request and two minutes', (_what, secret, alg) => {
    const clock = new HandClock()
    const headers = cdpHeaders({ id: 'key-1', secret }, clock)
    const { authorization } = headers('POST', 'api.cdp.coinbase.com', '/platform/v2/x402/settle')
    const [header, claims, signature] = authorization!.slice('Bearer '.length).split('.') as [string, string, string]
    expect(part(header)).toMatchObject({ alg, kid: 'key-1', typ: 'JWT' })
    const now = clock.now() / 1000
    expect(part(claims)).toMatchObject({
      ...{ sub: 'key-1', iss: 'cdp', nbf: now, exp: now + 120 },
      uris: ['POST api.cdp.coinbase.com/platform/v2/x402/settle'],
    })
    const signed = Buffer.from(`${header}.${claims}`)
    const bytes = Buffer.from(signature, 'base64url')
    const isGood =
      alg === 'EdDSA'
        ? verify(null, signed, ed25519.publicKey, bytes)
        : verify('sha256', signed, { key: p256.publicKey, dsaEncoding: 'ieee-p1363' }, bytes)
    expect(isGood).toBe(true)
  })

  test('T21 goes to no other host', () => {
    const key = { id: 'key-1', secret: seed.toString('base64') }
    const of = (url: string) => facilitatorHeaders(url, key, new HandClock())
    expect(of('https://api.cdp.coinbase.com/platform/v2/x402')).toBeDefined()
    expect(of('https://api.cdp.coinbase.com.evil.example/x402')).toBeUndefined()
    expect(of('http://127.0.0.1:1')).toBeUndefined()
  })

  test('T21 a secret that is no key is refused, and not repeated', () => {
    const make = () => cdpHeaders({ id: 'key-1', secret: 'not-a-key' }, new HandClock())
    expect(make).toThrow(/CDP_API_KEY_SECRET is not a key/)
    expect(make).not.toThrow(/not-a-key/)
  })
})
