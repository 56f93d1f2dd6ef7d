import { createPrivateKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'

const CDP_HOST = 'api.cdp.coinbase.com'
const LIFE_SECONDS = 120
/** The PKCS #8 header that precedes the 32 bytes of an Ed25519 key. */
const ED25519_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

export type FacilitatorHeaders = (method: string, host: string, path: string) => Record<string, string>

/**
 * Signs each request to the Coinbase CDP facilitator with a JWT, valid for 2 minutes, for its method, host and path.
 * @internal Exported for its test.
 * @param secret an Ed25519 key as CDP provides it (base64 of 64 bytes), or a P-256 key in PEM
 * @throws CodedError FACILITATOR_KEY_INVALID; its message never holds the key
 */
export function cdpHeaders({ id, secret }: { id: string; secret: string }, clock: Clock): FacilitatorHeaders {
  const key = readKey(secret)
  const isEd25519 = key.asymmetricKeyType === 'ed25519'
  return (method, host, path) => {
    const now = Math.floor(clock.now() / 1000)
    const header = { alg: isEd25519 ? 'EdDSA' : 'ES256', kid: id, typ: 'JWT', nonce: randomBytes(16).toString('hex') }
    const times = { iat: now, nbf: now, exp: now + LIFE_SECONDS }
    const claims = { sub: id, iss: 'cdp', aud: ['cdp_service'], ...times, uris: [`${method} ${host}${path}`] }
    const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
    const signature = isEd25519
      ? sign(null, Buffer.from(text), key)
      : sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
    return { authorization: `Bearer ${text}.${signature.toString('base64url')}` }
  }
}

/** The headers for a facilitator, if the operator has set its key: `CDP_API_KEY_ID` and `CDP_API_KEY_SECRET`. */
export function facilitatorHeaders(
  url: string,
  key: { id: string; secret: string } | undefined,
  clock: Clock,
): FacilitatorHeaders | undefined {
  // Only the CDP host receives a token signed with this key.
  return key !== undefined && URL.parse(url)?.host === CDP_HOST ? cdpHeaders(key, clock) : undefined
}

function readKey(secret: string): KeyObject {
  const text = secret.replaceAll('\\n', '\n').trim()
  try {
    if (text.startsWith('-----BEGIN')) return createPrivateKey(text)
    const bytes = Buffer.from(text, 'base64')
    if (bytes.length !== 64 && bytes.length !== 32) throw new Error('length')
    const der = Buffer.concat([ED25519_PREFIX, bytes.subarray(0, 32)])
    return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  } catch {
    throw new CodedError(
      'FACILITATOR_KEY_INVALID',
      'CDP_API_KEY_SECRET is not a key: copy the secret of a CDP API key as it is, base64 or PEM',
    )
  }
}
