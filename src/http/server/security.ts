// By hand: Fastify's plugins for CORS and limits check neither Host nor Sec-Fetch-Site, and trust requests by proxies.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { BoundedMap } from '../../lib/bounded-map.ts'
import type { UnixMs } from '../../lib/clock.ts'
import { TokenBuckets } from '../../lib/token-buckets.ts'
import { type Caller, OPERATOR } from '../../schema/caller.ts'
import { isLedgerAway } from '../../store/store-error.ts'
import { isLoopback, needsToken, parseHost } from './host-name.ts'
import { HttpError } from './problem.ts'

/**
 * Who may use an operation (D16). `public`: reads that web pages of any origin may make. `private`: all other
 * operations. `health`: public, never needs a token. `token`: private, needs a token even on loopback, because the
 * node's budgets do not limit it.
 */
export type Access = 'public' | 'private' | 'health' | 'token'

export type GuardOptions = {
  /** The address where the API listens. Off loopback, every request needs the token. */
  host: string
  corsOrigins: readonly string[]
  allowedHosts: readonly string[]
  /** The operator allows access without a token off loopback. */
  insecureOpen: boolean
  /** The operator requires a token on loopback. */
  requireToken: boolean
  token: string
  /** A second token of the operator: the one in the data directory, if the environment sets the first. */
  fileToken?: string | undefined
}

type RequestOrigin = {
  address: string
  httpVersion?: string | undefined
  /** True: a key that is no token of this node counts as none, where none is needed. */
  ignoresKeys?: boolean | undefined
}

type GuardDeps = {
  /** Returns the caller of a token that is not the operator's. */
  identify(text: string): Promise<Caller | undefined>
}

/** The checks of a request, in the order in which they run. Each throws HttpError. */
export type Guard = {
  readonly needsToken: boolean
  /** True if anyone who reaches the port may do everything. */
  readonly isOpen: boolean
  /** Prevents DNS rebinding: a page that points its own name at this machine still sends that name as Host. */
  checkHost(headers: IncomingHttpHeaders): void
  /** The CORS headers that tell a browser whether the page may read the answer. */
  corsHeaders(headers: IncomingHttpHeaders, access: Access, method: string): Record<string, string>
  /** Refuses a request that a page of another origin started. */
  checkOrigin(headers: IncomingHttpHeaders, access: Access, method: string): void
  /** Checks a token that was sent on loopback too: a revoked token must not act as the operator. */
  identify(headers: IncomingHttpHeaders, access: Access, from: RequestOrigin, now: UnixMs): Promise<Caller>
  /** True if a request with these headers would still be admitted. */
  holds(headers: IncomingHttpHeaders, httpVersion?: string | undefined): Promise<boolean>
}

/** The caller of requests for public facts. */
const ANYONE: Caller = { scope: 'read', tokenId: undefined }
/** Wrong tokens that one address may send at once. It regains one every 6 s. */
const WRONG_TOKENS_MAX = 20
const WRONG_TOKENS_PER_SECOND = 1 / 6
/** Tokens of addresses over that limit for which the ledger is asked, at all addresses together. */
const LOOKUPS = { burst: 20, perSecond: 20, keysMax: 1 }
/** Tokens that were found valid, and so are asked for without a limit. Beyond it the oldest is dropped. */
const FOUND_MAX = 1_000
/** Addresses remembered. Beyond it the least recently used is dropped. */
const ADDRESSES_MAX = 10_000

const exposed = { 'access-control-expose-headers': 'link, location, retry-after, www-authenticate' }

export function createGuard(options: GuardOptions, deps: GuardDeps = { identify: async () => undefined }): Guard {
  const hosts = new Set([options.host, ...options.allowedHosts].map((name) => name.toLowerCase()))
  const origins = new Set(options.corsOrigins)
  const isClosed = needsToken(options)
  // On loopback without a token, only programs on this machine are admitted. Requests through a proxy are not.
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
    // The page came from this node itself: `checkHost` has checked that the address is the node's.
    if (host !== undefined && match[2] === host.toLowerCase()) return true
    const name = parseHost(match[2]!)?.name
    return name !== undefined && isLoopback(name)
  }

  const lookups = new TokenBuckets(LOOKUPS)
  const found = new BoundedMap<string, true>(FOUND_MAX)

  const nameOf = (token: string) => digest(token).toString('base64')
  const isOwn = (given: string) => ownTokens.map((token) => timingSafeEqual(digest(given), token)).includes(true)
  const isFound = (given: string) => isOwn(given) || found.has(nameOf(given))

  async function callerOf(given: string): Promise<Caller | undefined> {
    if (isOwn(given)) return OPERATOR
    const caller = await deps.identify(given).catch(untold)
    if (caller === undefined) found.delete(nameOf(given))
    else found.set(nameOf(given), true)
    return caller
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
        `${name} is not a name of this node. Use its IP address or localhost, or add the name to api.allowed_hosts`,
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
      // Browsers send `Sec-Fetch-Site` even without an Origin: for forms, images and links.
      if (site === undefined || site === 'same-origin' || site === 'none') return
      if (isRead(method) && (site === 'same-site' || headers['sec-fetch-mode'] === 'navigate')) return
      throw foreignOrigin('another site')
    },

    async identify(headers, access, { address, httpVersion = '1.1', ignoresKeys = false }, now) {
      if (access === 'health') return ANYONE
      const given = tokenIn(headers.authorization)
      if (ignoresKeys && !isToken(given) && isLet(headers, httpVersion)) return OPERATOR
      // A caller that sends the header wants to be checked. A program with an empty token must not become the operator.
      const isSilent = headers.authorization === undefined
      if (isSilent && access !== 'token' && isLet(headers, httpVersion)) return OPERATOR
      // `connection: close`: a client without a token must not hold connections that others need.
      if (given === undefined) {
        throw new HttpError(
          'TOKEN_REQUIRED',
          isSilent
            ? 'the request has no token. Send Authorization: Bearer <token>; the token is in api.token'
            : 'the Authorization header holds no token. Send Authorization: Bearer <token>, or no such header',
          { headers: { 'www-authenticate': 'Bearer realm="stoa"', connection: 'close' } },
        )
      }
      // A valid token is not rate limited. Clients behind a proxy share an address, and one must not lock out the others.
      // The token is too long to guess. But strangers must not keep the ledger busy with tokens that they make up.
      const isTaken = isFound(given) || wrongTokens.take(attemptKey(address), 1, now)
      // If no token is needed, nobody guesses one. A program with an old token must not lock out the others.
      const isOver = isClosed && !isTaken
      const caller = isOver && !lookups.take('all', 1, now) ? undefined : await callerOf(given)
      if (caller !== undefined) return caller
      if (isOver) {
        throw new HttpError('TOO_MANY_ATTEMPTS', 'too many wrong tokens came from this address. Wait a minute', {
          headers: { 'retry-after': '60', connection: 'close' },
        })
      }
      throw new HttpError(
        'TOKEN_WRONG',
        'the token is not the one in api.token (or NODE_API_TOKEN) of the node, and not one that stoa token list shows',
        { headers: { 'www-authenticate': 'Bearer realm="stoa", error="invalid_token"', connection: 'close' } },
      )
    },

    async holds(headers, httpVersion = '1.1') {
      const given = tokenIn(headers.authorization)
      if (headers.authorization === undefined) return isLet(headers, httpVersion)
      return given !== undefined && (await callerOf(given)) !== undefined
    },
  }
}

/** Hides the error of the ledger from callers without a token: it names the database, the user and the host. */
function untold(error: unknown): never {
  if (!isLedgerAway(error)) throw error
  const how = 'ask again later; the operator finds the reason in the log of the node and by stoa doctor'
  throw new HttpError('STORE_AWAY', `the node cannot read its ledger now, so it knows no token: ${how}`)
}

/** Headers that proxies, load balancers, tunnels and CDNs add. Programs on this machine do not send them. */
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

/** Signs of a proxy: its headers, HTTP/1.0, which only old proxies use, and a Host that is not a loopback name. */
function isForwarded(headers: IncomingHttpHeaders, httpVersion: string): boolean {
  if (httpVersion === '1.0') return true
  const names = Object.keys(headers)
  if (names.some((name) => proxyHeaders.has(name) || proxyPrefixes.some((prefix) => name.startsWith(prefix))))
    return true
  const name = parseHost(headers.host ?? '')?.name
  return name !== undefined && !isLoopback(name)
}

/** True for the text of a token that this node may have made. The operator's own token may have any form. */
function isToken(given: string | undefined): boolean {
  return given?.startsWith('stoa_') === true
}

function tokenIn(authorization: string | undefined): string | undefined {
  return /^Bearer +([^\s]+) *$/i.exec(authorization ?? '')?.[1]
}

function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

function isPublicRead(access: Access, method: string): boolean {
  return (access === 'public' || access === 'health') && isRead(method)
}

function foreignOrigin(what: string): HttpError {
  return new HttpError(
    'ORIGIN_NOT_ALLOWED',
    `${what} may not do this. If the page is yours, add its origin to NODE_CORS_ORIGINS`,
  )
}

/** A hash, so that both sides have the same length and the comparison reveals nothing. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** One IPv6 customer has 2^64 addresses, so a whole /64 shares a bucket. */
function attemptKey(remoteAddress: string): string {
  if (isIP(remoteAddress) !== 6 || remoteAddress.startsWith('::ffff:')) return remoteAddress
  const [head = '', tail] = remoteAddress.split('::')
  const groups = head === '' ? [] : head.split(':')
  const zeros = tail === undefined ? 0 : 8 - groups.length - tail.split(':').length
  return [...groups, ...Array<string>(Math.max(0, zeros)).fill('0')].slice(0, 4).join(':')
}
