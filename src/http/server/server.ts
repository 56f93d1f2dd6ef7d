import type { Server as HttpServer, IncomingMessage } from 'node:http'
import fastify, { type FastifyHttpOptions, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import { eventStreamHeaders, sendEvents, whileAllowed } from '../../lib/event-stream.ts'
import { excessOf, utf8Text } from '../../lib/json.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Caller } from '../../schema/caller.ts'
import { BODY_BYTES_MAX, TASK_BYTES_MAX } from '../../schema/limits.ts'
import { answer, EventStream, type Operation } from '../api/operation.ts'
import { createAdmission, type Place, privateHeaders } from './admission.ts'
import { urlOf } from './host-name.ts'
import type { RequestHandler } from './listener.ts'
import { type Mount, withoutPrefix } from './mount.ts'
import { mountRoutes, refusal } from './mount-routes.ts'
import { HttpError, problemFor } from './problem.ts'
import { RunningRequests } from './running.ts'
import type { Guard } from './security.ts'
import { wholeBody } from './whole-body.ts'

/** Characters of an id in a path. DIDs and hashes, the longest ids, have fewer than 100. */
const PARAM_LENGTH_MAX = 256
/** TRACE stands for all methods that no operation has: the router does not know most of them. */
const routedMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']

export type ServerDeps = {
  guard: Guard
  clock: Clock
  logger: Logger
  /** Other protocols that pass the same checks. */
  mounts?: readonly Mount[]
  /** Receives the request handler and returns the server whose requests it answers. */
  adopt(handler: RequestHandler): HttpServer
}
export type Server = {
  readonly app: FastifyInstance
  readonly running: RunningRequests
  /** Refuses new requests and closes each connection after its answer. */
  refuseRequests(): void
}

/** Builds the handler of HTTP requests from the table of operations. The listener (listener.ts) owns the socket. */
export function createServer(rows: readonly Operation[], deps: ServerDeps): Server {
  const { guard, logger, mounts = [] } = deps
  const admit = createAdmission(deps)
  const running = new RunningRequests()
  const callers = new WeakMap<FastifyRequest, Caller>()
  let stopping = false

  const app = fastify(optionsOf(deps.adopt, sendError))
  parseJsonBodies(app)
  app.addHook('onRequest', async (request, reply) => {
    if (stopping) throw new HttpError('STOPPING', 'the node is stopping')
    const caller = await admit(request, reply)
    // The request is answered.
    if (caller === undefined) return reply
    callers.set(request, caller)
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { method, routeOptions } = request
    const fields = { method, path: routeOptions.url, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }
    logger.debug(fields, 'answered a request')
    done()
  })
  app.setErrorHandler((error, request, reply) => sendError(tooLarge(error, rowOf(request)), reply))
  for (const [path, rowsThere] of Map.groupBy(rows, ({ path }) => path)) addPath(path, rowsThere)
  if (mounts.length > 0) {
    const callerOf = (request: FastifyRequest) => callers.get(request)!
    app.register(mountRoutes(mounts, routedMethods, { callerOf, hijack, running, logger }))
  }

  /** Adds the operations of one path. Its other methods have a route too, which the admission refuses. */
  function addPath(path: string, rowsThere: readonly Operation[]): void {
    const url = path.replace(/\{(\w+)\}/g, ':$1')
    for (const row of rowsThere) {
      const bodyLimit = row.bodyBytesMax ?? BODY_BYTES_MAX
      const handler = (request: FastifyRequest, reply: FastifyReply) => answerOperation(row, request, reply)
      app.route({ method: row.method, url, bodyLimit, config: { row, rows: rowsThere } satisfies Place, handler })
    }
    const answered = new Set<string>(rowsThere.map(({ method }) => method))
    if (answered.has('GET')) answered.add('HEAD')
    const method = routedMethods.filter((one) => !answered.has(one))
    app.route({ method, url, config: { rows: rowsThere } satisfies Place, handler: notUsed })
  }

  async function answerOperation(row: Operation, request: FastifyRequest, reply: FastifyReply) {
    if (request.method === 'HEAD' && row.media === 'text/event-stream') return headOfStream(reply)
    const { params, query, body, headers: sent } = request
    const signal = () => running.signalOf(reply.raw)
    const call = { params, query, body, caller: callers.get(request)!, url: urlOf(sent), headers: sent, signal }
    const answered = await answer(row, call, logger)
    if (answered instanceof EventStream) return stream(row, answered, request, reply)
    const { status, text, media, headers } = answered
    reply.headers(headers)
    const prefix = request.originalUrl.startsWith('/api/') ? '/api' : ''
    if (headers.location !== undefined) reply.header('location', prefix + headers.location)
    return send(reply, status, media, text)
  }

  async function stream(row: Operation, answered: EventStream, request: FastifyRequest, reply: FastifyReply) {
    const { headers, raw } = request
    hijack(reply)
    // An endless stream ends when its token does. A stream that shows paid work runs to its end.
    const isEndless = row.media === 'text/event-stream'
    const events = isEndless
      ? whileAllowed(answered.events, () => guard.holds(headers, raw.httpVersion))
      : answered.events
    await sendEvents(reply.raw, events, running.signalOf(reply.raw))
  }

  /** Answers HEAD with the headers only. A subscription would take the slot of a reader. */
  function headOfStream(reply: FastifyReply): void {
    hijack(reply)
    reply.raw.writeHead(200, eventStreamHeaders).end()
  }

  function hijack(reply: FastifyReply): void {
    reply.hijack()
    // A hijacked reply loses the headers that the checks have set, so set them again.
    for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value!)
    if (stopping) reply.raw.setHeader('connection', 'close')
  }

  function sendError(error: unknown, reply: FastifyReply): FastifyReply {
    // The client has left, so its aborted work is not a fault of the node.
    if (reply.raw.destroyed && error instanceof Error && error.name === 'AbortError') return reply.hijack()
    const caller = callers.get(reply.request)
    const problem = problemFor(error, { operation: rowOf(reply.request)?.id, caller }, logger)
    // Requests refused before the checks, such as malformed paths, lack the security headers.
    if (!reply.hasHeader('x-content-type-options')) reply.headers(privateHeaders)
    if (error instanceof HttpError) reply.headers(error.headers)
    if (problem.code === 'TOKEN_WRONG') logger.warn({ address: reply.request.ip }, 'a wrong API token was sent')
    const { status, media, headers, body } = refusal(problem, placeOf(reply.request).mount)
    return send(reply.headers(headers), status, media, JSON.stringify(body))
  }

  function send(reply: FastifyReply, status: number, media: string, text: string): FastifyReply {
    if (stopping) reply.header('connection', 'close')
    return reply.code(status).type(media).send(text)
  }

  return {
    app,
    running,
    refuseRequests() {
      stopping = true
    },
  }
}

function optionsOf(
  adopt: ServerDeps['adopt'],
  sendError: (error: unknown, reply: FastifyReply) => void,
): FastifyHttpOptions<HttpServer> {
  return {
    bodyLimit: BODY_BYTES_MAX,
    return503OnClosing: false,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX, ignoreTrailingSlash: true },
    // zod parses and encodes (schema/api). Without these stubs Fastify loads Ajv, a third of all it loads at start.
    schemaController: { compilersFactory: { buildValidator: notUsed, buildSerializer: notUsed } },
    serverFactory: adopt,
    rewriteUrl: normalize,
    // The listener has its own handler. With two, a client would get two answers.
    clientErrorHandler: () => {},
    frameworkErrors: (error, _request, reply) => sendError(error, reply),
  }
}

/** Every path answers under the prefix `/api` too (D13). */
function normalize(request: IncomingMessage): string {
  if (!routedMethods.includes(request.method!)) request.method = 'TRACE'
  return withoutPrefix(request.url!)
}

/** Reads JSON bodies only. The admission has refused other media types. */
function parseJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  const parseJson = app.getDefaultJsonParser('error', 'error')
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: FastifyRequest['raw']) => {
    const body = await wholeBody(request, payload)
    // Some clients send a media type without a body, for example with DELETE.
    if (body.length === 0 && rowOf(request)?.body === undefined) return undefined
    // Refuse invalid UTF-8, because replacement characters would change the task that a buyer pays for.
    const text = utf8Text(body)
    const excess = text === undefined ? 'is not valid UTF-8' : excessOf(text)
    if (excess !== undefined) throw new HttpError('MALFORMED_JSON', `the body ${excess}`)
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    parseJson(request, text!, (error, json) => (error ? reject(error) : resolve(json)))
    return promise
  })
}

function rowOf(request: FastifyRequest): Operation | undefined {
  return placeOf(request).row
}

/** Empty for a path that leads nowhere. */
function placeOf({ routeOptions }: FastifyRequest): Place {
  return (routeOptions.config as Place | undefined) ?? {}
}

/** zod parses and encodes, and the admission refuses what has no operation. */
function notUsed(): never {
  throw new Error('not used')
}

/** States the operation's own limit if a body was too long. */
function tooLarge(error: unknown, row: Operation | undefined): unknown {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'BODY_TOO_LARGE') return error
  if (row?.errors.includes('INPUT_TOO_LARGE')) {
    const limits = `the limit of a body is ${BODY_BYTES_MAX} bytes, and of its task ${TASK_BYTES_MAX}`
    return new HttpError('INPUT_TOO_LARGE', limits)
  }
  return new HttpError('BODY_TOO_LARGE', `the limit of the body is ${row?.bodyBytesMax ?? BODY_BYTES_MAX} bytes`)
}
