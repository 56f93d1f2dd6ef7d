import { isUtf8 } from 'node:buffer'
import type { Server as HttpServer } from 'node:http'
import fastify, { type FastifyHttpOptions, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Caller } from '../../schema/caller.ts'
import { BODY_BYTES_MAX, TASK_BYTES_MAX } from '../../schema/limits.ts'
import { answer, EventStream, type Operation } from '../api/operation.ts'
import { createAdmission, privateHeaders, rowOf } from './admission.ts'
import { eventStreamHeaders, sendEvents, whileHeld } from './event-stream.ts'
import { urlOf } from './host-name.ts'
import type { RequestHandler } from './listener.ts'
import { type Mount, mountAt } from './mount.ts'
import { HttpError, problemFor } from './problem.ts'
import { Running } from './running.ts'
import type { Guard } from './security.ts'

/** D13: every path answers under both. */
const prefixes = ['', '/api']

const PARAM_LENGTH_MAX = 256

export type ServerDeps = {
  guard: Guard
  clock: Clock
  logger: Logger
  /** Other protocols behind the same doors. */
  mounts?: readonly Mount[]
  /** Takes what answers requests, and gives the server that they come from. */
  adopt(handler: RequestHandler): HttpServer
}
export type Server = {
  readonly app: FastifyInstance
  readonly running: Running
  /** From here on new requests are refused, and connections closed as they are answered. */
  refuseRequests(): void
}

/** The table of operations as a handler of HTTP requests; see listener.ts for the socket. */
export function createServer(rows: readonly Operation[], deps: ServerDeps): Server {
  const { logger, mounts = [] } = deps
  const admit = createAdmission(rows, { ...deps, mounts })
  const running = new Running()
  const callers = new WeakMap<FastifyRequest, Caller>()
  let stopping = false

  const serverOptions: FastifyHttpOptions<HttpServer> = {
    bodyLimit: BODY_BYTES_MAX,
    return503OnClosing: false,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX, ignoreTrailingSlash: true },
    // zod parses and encodes (schema/api). Without these Fastify loads Ajv at start, a third of all it loads.
    schemaController: { compilersFactory: { buildValidator: notUsed, buildSerializer: notUsed } },
    serverFactory: (handler) => deps.adopt(handler),
    // The listener has its own, and two would answer twice.
    clientErrorHandler: () => {},
    frameworkErrors: (error, _request, reply) => sendError(error, reply),
  }
  const app = fastify(serverOptions)

  app.removeAllContentTypeParsers()
  const parseJson = app.getDefaultJsonParser('error', 'error')
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    // Clients name a type also where they send nothing, as with DELETE.
    if (body.length === 0 && rowOf(request)?.body === undefined) done(null)
    // Replacement characters would change what a buyer asks, and pays, for.
    else if (isUtf8(body)) parseJson(request, body.toString('utf8'), done)
    else done(new HttpError('MALFORMED_JSON', 'the body is not valid UTF-8'))
  })
  app.addHook('onRequest', (request, reply, done) => {
    try {
      if (stopping) throw new HttpError('STOPPING', 'the node is stopping')
      const caller = admit(request, reply)
      if (caller === undefined) return
      callers.set(request, caller)
      done()
    } catch (error) {
      done(error as Error)
    }
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { method, routeOptions } = request
    const fields = { method, path: routeOptions.url, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }
    logger.debug(fields, 'answered a request')
    done()
  })
  app.setErrorHandler((error, request, reply) => sendError(tooLarge(error, rowOf(request)), reply))
  for (const row of rows) for (const prefix of prefixes) addRoute(row, prefix)
  if (mounts.length > 0) app.register(addMounts)

  function addRoute(row: Operation, prefix: string): void {
    app.route({
      method: row.method,
      url: prefix + row.path.replace(/\{(\w+)\}/g, ':$1'),
      bodyLimit: row.bodyBytesMax ?? BODY_BYTES_MAX,
      config: { row },
      async handler(request, reply) {
        if (request.method === 'HEAD' && row.media === 'text/event-stream') return headOfStream(reply)
        const { params, query, body } = request
        const caller = callers.get(request)!
        const signal = () => running.signalOf(reply.raw)
        const { headers: sent } = request
        const call = { params, query, body, caller, url: urlOf(sent), headers: sent, signal }
        const answered = await answer(row, call, logger)
        if (answered instanceof EventStream) return stream(row, answered, request, reply)
        const { status, text, media, headers } = answered
        reply.headers(headers)
        if (headers.location !== undefined) reply.header('location', prefix + headers.location)
        return send(reply, status, media, text)
      },
    })
  }

  async function stream(row: Operation, answered: EventStream, request: FastifyRequest, reply: FastifyReply) {
    const { headers, raw } = request
    hijack(reply)
    // What goes on without end ends with the token it was asked for with; work that is paid for is shown to its end.
    const isEndless = row.media === 'text/event-stream'
    const events = isEndless
      ? whileHeld(answered.events, () => deps.guard.holds(headers, raw.httpVersion))
      : answered.events
    await sendEvents(reply.raw, events, running.signalOf(reply.raw))
  }

  /** Nothing is followed: it would take the place of somebody who reads. */
  function headOfStream(reply: FastifyReply): void {
    hijack(reply)
    reply.raw.writeHead(200, eventStreamHeaders).end()
  }

  function hijack(reply: FastifyReply): void {
    reply.hijack()
    // Hijacked, a reply loses what the doors have set.
    for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value!)
    if (stopping) reply.raw.setHeader('connection', 'close')
  }

  /** In a context of their own, where bodies stay unread. */
  async function addMounts(context: FastifyInstance): Promise<void> {
    context.removeAllContentTypeParsers()
    context.addContentTypeParser('*', (_request, _body, done) => done(null))
    for (const { path, methods } of mounts) {
      for (const url of prefixes.flatMap((prefix) => [prefix + path, `${prefix + path}/*`])) {
        context.route({ method: [...methods], url, handler: answerMount })
      }
    }
  }

  async function answerMount(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { raw, headers } = request
    const caller = callers.get(request)!
    const { mount, rest } = mountAt(mounts, raw.url!)!
    const url = urlOf(headers) + mount.path
    hijack(reply)
    try {
      await mount.handle({ request: raw, response: reply.raw, rest, url, caller, signal: running.signalOf(reply.raw) })
    } catch (error) {
      if (reply.raw.headersSent || reply.raw.destroyed) return void reply.raw.destroy()
      const problem = problemFor(error, mount.path, logger)
      // What was not read of the body stands before the next request.
      if (!raw.complete) reply.raw.setHeader('connection', 'close')
      reply.raw.writeHead(problem.status, { 'content-type': 'application/problem+json' })
      reply.raw.end(JSON.stringify(problem))
    }
  }

  function sendError(error: unknown, reply: FastifyReply): FastifyReply {
    // The work of a client that has left ends in whatever its abort threw: no fault of the node.
    if (reply.raw.destroyed && error instanceof Error && error.name === 'AbortError') return reply.hijack()
    const problem = problemFor(error, rowOf(reply.request)?.id, logger)
    // What is refused before the doors, such as a malformed path, has none of their headers yet.
    if (!reply.hasHeader('x-content-type-options')) reply.headers(privateHeaders)
    if (error instanceof HttpError) reply.headers(error.headers)
    if (problem.code === 'TOKEN_WRONG') logger.warn({ address: reply.request.ip }, 'a wrong API token was sent')
    return send(reply, problem.status, 'application/problem+json', JSON.stringify(problem))
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

/** No route has a JSON Schema of its own. */
function notUsed(): never {
  throw new Error('zod parses and encodes')
}

/** Says the true limit where a body was too long. */
function tooLarge(error: unknown, row: Operation | undefined): unknown {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'FST_ERR_CTP_BODY_TOO_LARGE') return error
  if (row?.errors.includes('INPUT_TOO_LARGE')) {
    const limits = `a body may have ${BODY_BYTES_MAX} bytes and the task in it ${TASK_BYTES_MAX}`
    return new HttpError('INPUT_TOO_LARGE', limits)
  }
  return new HttpError('BODY_TOO_LARGE', `the body may have ${row?.bodyBytesMax ?? BODY_BYTES_MAX} bytes`)
}
