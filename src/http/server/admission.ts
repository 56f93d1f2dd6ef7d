import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import { type Caller, permits, type Scope } from '../../schema/caller.ts'
import type { Operation } from '../api/operation.ts'
import { type Mount, mountAt } from './mount.ts'
import { createPathTable } from './path-table.ts'
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

/** Admits a request and returns its caller, or throws HttpError. Undefined: the request is already answered. */
type Admit = (request: FastifyRequest, reply: FastifyReply) => Caller | undefined

/** The checks before a request's body is read: host, origin, token, path, scope, media type. */
export function createAdmission(
  rows: readonly Operation[],
  deps: { guard: Guard; clock: Clock; mounts: readonly Mount[] },
): Admit {
  const { guard, clock, mounts } = deps
  const paths = createPathTable(rows)

  function methodsOf(path: string): string {
    const mounted = mountAt(mounts, path)
    if (mounted === undefined) return paths.methods(path).join(', ')
    const methods = mounted.mount.offered?.(mounted.rest) ?? mounted.mount.methods
    return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
  }

  /** Returns undefined if the path has no such method. */
  function accessOf(path: string, method: string): Access | undefined {
    const mounted = mountAt(mounts, path)
    const reading = method === 'HEAD' ? 'GET' : method
    if (mounted === undefined) return paths.find(path, method)?.access
    return mounted.mount.methods.includes(reading) ? mounted.mount.access(reading, mounted.rest) : undefined
  }

  function noRoute(path: string): HttpError {
    const methods = methodsOf(path)
    if (methods === '')
      return new HttpError(
        'NOT_FOUND',
        'no operation has this path: GET /docs lists all; the dashboard is at /dashboard',
      )
    return new HttpError('METHOD_NOT_ALLOWED', `this path answers ${methods}`, { headers: { allow: methods } })
  }

  /** OPTIONS requests carry no token. The answer reveals only what the documentation shows. */
  function answerOptions({ headers }: FastifyRequest, reply: FastifyReply, path: string): void {
    const methods = methodsOf(path)
    if (methods === '') throw noRoute(path)
    const wanted = headers['access-control-request-method']
    if (headers.origin !== undefined && wanted !== undefined) {
      const access = accessOf(path, wanted)
      if (access === undefined) throw noRoute(path)
      guard.checkOrigin(headers, access, wanted)
      const allowed = [
        'authorization',
        'content-type',
        'idempotency-key',
        'last-event-id',
        ...(mountAt(mounts, path)?.mount.requestHeaders ?? []),
      ]
      reply.headers({
        ...guard.corsHeaders(headers, access, wanted),
        'access-control-allow-methods': methods,
        'access-control-allow-headers': allowed.join(', '),
        'access-control-max-age': '600',
        // Chromium requires this header before a page of a public site may call a server in a private network.
        ...(headers['access-control-request-private-network'] === 'true' && {
          'access-control-allow-private-network': 'true',
        }),
      })
    }
    reply.code(204).header('allow', methods).send()
  }

  return function admit(request, reply) {
    const { method, headers, raw } = request
    const row = rowOf(request)
    const path = raw.url?.split('?', 1)[0] ?? ''
    const mounted = mountAt(mounts, path) === undefined ? undefined : accessOf(path, method)
    const access: Access = (row && accessTo(row, request.query)) ?? mounted ?? 'private'
    reply.headers(access === 'private' || access === 'token' ? privateHeaders : publicHeaders)
    // An absolute target would name a second host that is not checked.
    if (!raw.url?.startsWith('/')) throw new HttpError('INVALID_REQUEST', 'the request target must be a path')
    guard.checkHost(headers)
    if (method === 'OPTIONS') {
      answerOptions(request, reply, path)
      return undefined
    }
    reply.headers(guard.corsHeaders(headers, access, method))
    guard.checkOrigin(headers, access, method)
    const caller = guard.identify(headers, access, raw.socket.remoteAddress ?? '', clock.now(), raw.httpVersion)
    if (mounted !== undefined && !request.is404) {
      const { mount, rest } = mountAt(mounts, path)!
      checkScope(caller, access, mount.scope(method === 'HEAD' ? 'GET' : method, rest))
      return caller
    }
    // The router matches `/agents/own` as an id if the exact path has only other methods. Refuse such a match.
    if (row === undefined || (paths.methods(path).length > 0 && paths.find(path, method) === undefined))
      throw noRoute(path)
    checkScope(caller, access, row.scope)
    if (row.body !== undefined) checkMediaType(headers)
    return caller
  }
}

/** The row of the operation that the router matched. */
export function rowOf(request: FastifyRequest): Operation | undefined {
  return (request.routeOptions.config as { row?: Operation }).row
}

function accessTo({ access, privateQuery = [] }: Operation, query: unknown): Access {
  return privateQuery.some((name) => Object.hasOwn(query as object, name)) ? 'private' : access
}

function checkScope({ scope }: Caller, access: Access, needed: Scope): void {
  if (access === 'health' || permits(scope, needed)) return
  throw new HttpError('SCOPE_TOO_LOW', `this needs a token of the scope ${needed}; the one sent has ${scope}`)
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
