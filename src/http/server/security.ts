import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import type { UnixMs } from '../../lib/clock.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import { type Caller, OPERATOR } from '../../schema/caller.ts'
import { isLoopback, needsToken, parseHost } from './host-name.ts'
import { HttpError } from './problem.ts'

/**
 * Who may use an operation (D16).
 *
 * `public`: reads that web pages of any origin may make. `private`: everything else. `health`: public, and needs no
 * token wherever the API is bound. `token`: private, and needs a token even on loopback: what the node's budgets do not bound.
 */
export type Access = 'public' | 'private' | 'health' | 'token'

export type GuardOptions = {
  /** Where the API listens. Off the loopback interface every request needs the token. */
  host: string
  corsOrigins: readonly string[]
  allowedHosts: readonly string[]
  /** Off the loopback interface without a token: the operator's own word. */
  insecureOpen: boolean
  /** On the loopback interface with a token only. */
  requireToken: boolean
  /** The operator's. */
  token: string
  /** Another one of the operator's: that of the data directory, where the environment names the first. */
  fileToken?: string | undefined
}

export type GuardDeps = {
  /** Whose token a text is, beside the operator's. */
  identify(text: string): Caller | undefined
}

/** The doors of the API, in the order in which a request meets them. Each throws an HttpError. */
export type Guard = {
  readonly needsToken: boolean
  /** Whoever reaches the port may do everything. */
  readonly isOpen: boolean
  /** No DNS rebinding: a page that had its own name pointed at this machine still sends that name. */
  checkHost(headers: IncomingHttpHeaders): void
  /** The CORS headers that tell a browser whether the page that asks may see the answer. */
  corsHeaders(headers: IncomingHttpHeaders, access: Access, method: string): Record<string, string>
  /** Refuses what a page of a foreign origin started, before it does anything. */
  checkOrigin(headers: IncomingHttpHeaders, access: Access, method: string): void
  /** Who asks. A token that is sent counts, on loopback too: a revoked one must not become the operator. */
  identify(
    headers: IncomingHttpHeaders,
    access: Access,
    remoteAddress: string,
    now: UnixMs,
    httpVersion?: string | undefined,
  ): Caller
  /** Whether whoever was let in with these headers still would be. */
  holds(headers: IncomingHttpHeaders, httpVersion?: string | undefined): boolean
}

/** Whoever asks for what everybody may know. */
const ANYONE: Caller = { scope: 'read', tokenId: undefined }
/** Wrong tokens that one address may send at once; one more every six seconds. */
const WRONG_TOKENS_MAX = 20
const WRONG_TOKENS_PER_SECOND = 1 / 6
const ADDRESSES_MAX = 10_000

const exposed = { 'access-control-expose-headers': 'link, location, retry-after, www-authenticate' }

export function createGuard(options: GuardOptions, deps: GuardDeps = { identify: () => undefined }): Guard {
  const hosts = new Set([options.host, ...options.allowedHosts].map((name) => name.toLowerCase()))
  const origins = new Set(options.corsOrigins)
  const isClosed = needsToken(options)
  // On loopback without a token only programs of this machine: not what a proxy brings here from elsewhere.
  const isLet = (headers: IncomingHttpHeaders, httpVersion: string) =>
    !isClosed && !(isLoopback(options.host) && isForwarded(headers, httpVersion))
  const ownTokens = [options.token, options.fileToken ?? options.token].map(digest)
  const wrongTokens = new TokenBuckets({
    burst: WRONG_TOKENS_MAX,
    perSecond: WRONG_TOKENS_PER_SECOND,
    keysMax: ADDRESSES_MAX,
  })

  function isOwnOrigin(origin: string, host: string | undefined): boolean {
    if (origins.has(origin)) return true
    const match = /^(https?):\/\/([^/]+)$/.exec(origin)
    if (match === null) return false
    // A page that this very address served. `checkHost` has made sure that the address is the node's.
    if (host !== undefined && match[2] === host.toLowerCase()) return true
    const name = parseHost(match[2]!)?.name
    return name !== undefined && isLoopback(name)
  }

  function callerOf(given: string): Caller | undefined {
    const isOwn = ownTokens.map((token) => timingSafeEqual(digest(given), token)).includes(true)
    return isOwn ? OPERATOR : deps.identify(given)
  }

  return {
    needsToken: isClosed,
    isOpen: !isLoopback(options.host) && options.insecureOpen,

    checkHost({ host }) {
      const parsed = parseHost(host ?? '')
      if (parsed === undefined) throw new HttpError('INVALID_REQUEST', 'the Host header is missing or malformed')
      const { name } = parsed
      if (isLoopback(name) || isIP(name) !== 0 || hosts.has(name)) return
      throw new HttpError(
        'HOST_NOT_ALLOWED',
        `${name} is no name of this node: use its IP address or localhost, or add the name to api.allowed_hosts`,
      )
    },

    corsHeaders({ origin, host }, access, method) {
      if (isPublicRead(access, method)) return { 'access-control-allow-origin': '*', ...exposed }
      if (origin === undefined || !isOwnOrigin(origin, host)) return { vary: 'Origin' }
      return { 'access-control-allow-origin': origin, vary: 'Origin', ...exposed }
    },

    checkOrigin(headers, access, method) {
      if (isPublicRead(access, method)) return
      const { origin, host } = headers
      const site = headers['sec-fetch-site']
      if (origin !== undefined) {
        if (isOwnOrigin(origin, host)) return
        throw foreignOrigin(`the origin ${origin.slice(0, 100)}`)
      }
      // Browsers tell where a request comes from even where they send no Origin: forms, images, links.
      if (site === undefined || site === 'same-origin' || site === 'none') return
      if (isRead(method) && (site === 'same-site' || headers['sec-fetch-mode'] === 'navigate')) return
      throw foreignOrigin('another site')
    },

    identify(headers, access, remoteAddress, now, httpVersion = '1.1') {
      if (access === 'health') return ANYONE
      const given = tokenIn(headers.authorization)
      if (given === undefined && access !== 'token' && isLet(headers, httpVersion)) return OPERATOR
      // `connection: close`: whoever has no token is not to hold the connections that others need.
      if (given === undefined) {
        throw new HttpError('TOKEN_REQUIRED', 'send Authorization: Bearer <token>; the token is in api.token', {
          headers: { 'www-authenticate': 'Bearer realm="stoa"', connection: 'close' },
        })
      }
      // A right token is never limited: behind a proxy all share an address, and one must not lock out the others. It has too
      // many bits to be guessed.
      const caller = callerOf(given)
      if (caller !== undefined) return caller
      const key = attemptKey(remoteAddress)
      // Where none is needed nobody guesses: a stale token of one program must not lock out the others.
      if (isClosed && !wrongTokens.has(key, 1, now)) {
        throw new HttpError('TOO_MANY_ATTEMPTS', 'too many wrong tokens came from this address: wait a minute', {
          headers: { 'retry-after': '60', connection: 'close' },
        })
      }
      wrongTokens.take(key, 1, now)
      throw new HttpError(
        'TOKEN_WRONG',
        'this is neither the token in api.token (or NODE_API_TOKEN) of the node nor one that stoa token list shows',
        {
          headers: { 'www-authenticate': 'Bearer realm="stoa", error="invalid_token"', connection: 'close' },
        },
      )
    },

    holds(headers, httpVersion = '1.1') {
      const given = tokenIn(headers.authorization)
      return given === undefined ? isLet(headers, httpVersion) : callerOf(given) !== undefined
    },
  }
}

/** Headers that proxies, load balancers, tunnels and content networks add, and programs of this machine have no use for. */
const proxyHeaders = new Set([
  ...['forwarded', 'via', 'client-ip', 'true-client-ip', 'cluster-client-ip', 'fastly-client-ip', 'fly-client-ip'],
  ...[
    'remote-addr',
    'proxy-connection',
    'proxy-authorization',
    'cdn-loop',
    'max-forwards',
    'front-end-https',
    'ssl-offloaded',
  ],
  ...['x-client-ip', 'x-cluster-client-ip', 'x-proxyuser-ip', 'x-remote-ip', 'x-remote-addr', 'x-host', 'x-scheme'],
  ...[
    'x-arr-ssl',
    'x-arr-log-id',
    'x-url-scheme',
    'x-request-start',
    'x-varnish',
    'x-appengine-user-ip',
    'x-vercel-id',
  ],
])
const proxyPrefixes = [
  'x-forwarded',
  'x-real-',
  'x-original-',
  'x-envoy-',
  'x-amzn-',
  'x-azure-',
  'cf-',
  'fly-',
  'tailscale-',
]

/**
 * Whether a proxy may have passed a request on: by what proxies add, by HTTP/1.0, which only old proxies still speak to their
 * servers, or as it was sent to another name than this machine has for itself.
 */
function isForwarded(headers: IncomingHttpHeaders, httpVersion: string): boolean {
  if (httpVersion === '1.0') return true
  const names = Object.keys(headers)
  if (names.some((name) => proxyHeaders.has(name) || proxyPrefixes.some((prefix) => name.startsWith(prefix))))
    return true
  const name = parseHost(headers.host ?? '')?.name
  return name !== undefined && !isLoopback(name)
}

function tokenIn(authorization: string | undefined): string | undefined {
  return /^Bearer +([^\s]+) *$/i.exec(authorization ?? '')?.[1]
}

/** Whether a method only looks. */
export function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

function isPublicRead(access: Access, method: string): boolean {
  return (access === 'public' || access === 'health') && isRead(method)
}

function foreignOrigin(what: string): HttpError {
  return new HttpError(
    'ORIGIN_NOT_ALLOWED',
    `${what} may not do this; if the page is yours, add its origin to NODE_CORS_ORIGINS`,
  )
}

/** Equal lengths, so that the comparison tells nothing, not even the token's length. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** One IPv6 customer has 2^64 addresses: they share a bucket. */
function attemptKey(remoteAddress: string): string {
  if (isIP(remoteAddress) !== 6 || remoteAddress.startsWith('::ffff:')) return remoteAddress
  const [head = '', tail] = remoteAddress.split('::')
  const groups = head === '' ? [] : head.split(':')
  const zeros = tail === undefined ? 0 : 8 - groups.length - tail.split(':').length
  return [...groups, ...Array<string>(Math.max(0, zeros)).fill('0')].slice(0, 4).join(':')
}
