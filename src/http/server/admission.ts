import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import { type Caller, permits, type Scope } from '../../schema/caller.ts'
import type { Operation } from '../api/operation.ts'
import { type Mount, restOf } from './mount.ts'
import { HttpError } from './problem.ts'
import type { Access, Guard } from './security.ts'

const baseHeaders = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
}
export const privateHeaders = {
  ...baseHeaders,
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
}
const publicHeaders = {
  ...baseHeaders,
  'cache-control': 'no-cache',
  'cross-origin-resource-policy': 'cross-origin',
}

/** What the router found. `row` answers. Without a row or a mount the path has no such method. */
export type Place = { row?: Operation; rows?: readonly Operation[]; mount?: Mount }

/** Admits a request and returns its caller, or throws HttpError. Undefined: the request is already answered. */
type Admit = (request: FastifyRequest, reply: FastifyReply) => Promise<Caller | undefined>

/** The checks before a request's body is read: host, origin, token, path, scope, media type. */
export function createAdmission({ guard, clock }: { guard: Guard; clock: Clock }): Admit {
  /** OPTIONS requests carry no token. The answer reveals only what the documentation shows. */
  function answerOptions({ headers }: FastifyRequest, reply: FastifyReply, place: Place, rest: string): void {
    const methods = methodsOf(place, rest)
    if (methods === '') throw noRoute(place, rest)
    const wanted = headers['access-control-request-method']
    if (headers.origin !== undefined && wanted !== undefined) {
      const access = accessOf(place, wanted, rest)
      if (access === undefined) throw noRoute(place, rest)
      guard.checkOrigin(headers, access, wanted)
      const allowed = ['authorization', 'content-type', 'idempotency-key', 'last-event-id']
      reply.headers({
        ...guard.corsHeaders(headers, access, wanted),
        'access-control-allow-methods': methods,
        'access-control-allow-headers': [...allowed, ...(place.mount?.requestHeaders ?? [])].join(', '),
        'access-control-max-age': '600',
        // Chromium requires this header before a page of a public site may call a server in a private network.
        ...(headers['access-control-request-private-network'] === 'true' && {
          'access-control-allow-private-network': 'true',
        }),
      })
    }
    reply.code(204).header('allow', methods).send()
  }

  return async function admit(request, reply) {
    const { method, headers, raw } = request
    const target = raw.url ?? ''
    const place = placeOf(request, target)
    const { row, mount } = place
    const rest = (mount && restOf(mount, target.split('?', 1)[0]!)) ?? ''
    const offered = row === undefined ? mount && accessOf(place, method, rest) : accessTo(row, request.query)
    const access = offered ?? 'private'
    reply.headers(access === 'private' || access === 'token' ? privateHeaders : publicHeaders)
    // An absolute target would name a second host that is not checked.
    if (!target.startsWith('/')) throw new HttpError('INVALID_REQUEST', 'the request target must be a path')
    guard.checkHost(headers)
    if (method === 'OPTIONS') {
      answerOptions(request, reply, place, rest)
      return undefined
    }
    reply.headers(guard.corsHeaders(headers, access, method))
    guard.checkOrigin(headers, access, method)
    const { httpVersion, socket } = raw
    const from = { address: socket.remoteAddress ?? '', httpVersion, ignoresKeys: mount?.ignoresKeys }
    const caller = await guard.identify(headers, access, from, clock.now())
    if (offered === undefined) throw noRoute(place, rest)
    checkScope(caller, access, row?.scope ?? mount!.scope(reading(method), rest))
    if (row?.body !== undefined) checkMediaType(headers)
    return caller
  }
}

/** The place that the router matched. A mount answers only a path that is spelled as its own. */
function placeOf({ routeOptions }: FastifyRequest, target: string): Place {
  const place = routeOptions.config as Place
  return place.mount !== undefined && restOf(place.mount, target) === undefined ? {} : place
}

const reading = (method: string) => (method === 'HEAD' ? 'GET' : method)

function methodsOf({ rows = [], mount }: Place, rest: string): string {
  const methods = mount === undefined ? rows.map(({ method }) => method) : (mount.offered?.(rest) ?? mount.methods)
  if (methods.length === 0) return ''
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
}

/** Returns undefined if the place has no such method. */
function accessOf({ rows = [], mount }: Place, method: string, rest: string): Access | undefined {
  if (mount === undefined) return rows.find((row) => row.method === reading(method))?.access
  return mount.methods.includes(reading(method)) ? mount.access(reading(method), rest) : undefined
}

function noRoute(place: Place, rest: string): HttpError {
  const methods = methodsOf(place, rest)
  if (methods !== '') {
    return new HttpError('METHOD_NOT_ALLOWED', `this path answers ${methods}`, { headers: { allow: methods } })
  }
  return new HttpError(
    'NOT_FOUND',
    'no operation has this path. GET /docs lists all paths; the dashboard is at /dashboard',
  )
}

function accessTo({ access, privateQuery = [] }: Operation, query: unknown): Access {
  return privateQuery.some((name) => Object.hasOwn(query as object, name)) ? 'private' : access
}

function checkScope({ scope }: Caller, access: Access, needed: Scope): void {
  if (access === 'health' || permits(scope, needed)) return
  throw new HttpError(
    'SCOPE_TOO_LOW',
    `this needs a token with the scope ${needed}. The token that was sent has ${scope}`,
  )
}

/** Forms and `text/plain` bodies need no preflight. A JSON body can come only from where CORS allows it (T11). */
function checkMediaType(headers: FastifyRequest['headers']): void {
  const type = headers['content-type'] ?? ''
  if (!/^application\/json *(?:; *charset="?utf-8"? *)?$/i.test(type)) {
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', 'send the body as Content-Type: application/json, in UTF-8')
  }
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity') {
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', 'send the body without Content-Encoding')
  }
}
