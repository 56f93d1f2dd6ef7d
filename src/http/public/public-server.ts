import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http'
import fastify, { type FastifyHttpOptions, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { answerInRoom } from '../../lib/answer-room.ts'
import { bodyInRoom } from '../../lib/body-room.ts'
import { Hold } from '../../lib/hold.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Meters } from '../../lib/meters.ts'
import { BODY_BYTES_MAX } from '../../schema/limits.ts'
import { AgentId } from '../../schema/primitives.ts'
import type { RequestHandler } from '../server/listener.ts'
import { wholeBody } from '../server/whole-body.ts'
import type { AgentSale } from './agent-sale.ts'
import { Arriving } from './arriving.ts'
import type { Asked } from './asked.ts'
import type { SiteReader } from './client-site.ts'
import { isMuchUnread, LateRefusals } from './late-refusals.ts'
import { PublicError, refusalOf, tooManyRequests } from './public-error.ts'
import { baseHeaders } from './public-headers.ts'
import type { PublicLimits, Refusal } from './public-limits.ts'
import { PUBLIC_REQUESTS } from './public-meters.ts'
import { type PublicMount, publicMount } from './public-mount.ts'
import { pageHeaders, publicPage } from './public-page.ts'
import { type TaskForm, taskForm } from './task-body.ts'

export type PublicServerDeps = {
  logger: Logger
  meters: Pick<Meters, 'count'>
  limits: PublicLimits
  sites: SiteReader
  agentSale: AgentSale
  /** Other protocols, which read bodies and write answers on their own. */
  mounts?: readonly PublicMount[]
  /** What `GET /x402` lists. */
  index(): object
  /** The same as an OpenAPI document. */
  openApi(): object
  adopt(handler: RequestHandler): HttpServer
}

export type PublicServer = {
  readonly app: FastifyInstance
  /** Refuses new requests, and closes each connection after its answer. */
  refuseRequests(): void
}

const preflightHeaders = {
  'access-control-allow-methods': 'POST, GET, DELETE, OPTIONS',
  // Clients of x402 send Access-Control-Expose-Headers with their requests.
  'access-control-allow-headers':
    'Content-Type, PAYMENT-SIGNATURE, X-PAYMENT, Access-Control-Expose-Headers, Idempotency-Key, Stoa-Caller, A2A-Version, A2A-Extensions, X-A2A-Extensions, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID',
  'access-control-max-age': '7200',
}
/** A request and what it has taken of the limits. It gives that back when it is answered and its work has ended. */
type Held = {
  site: string
  /** Set if this node has too many requests to answer this one. */
  refusal?: 'all'
  asked?: Asked
  form?: TaskForm
  holds: Hold[]
  isAtWork: boolean
  isClosed: boolean
}

/** Builds the handler of the requests of strangers. The listener (public-listener.ts) owns the socket. */
export function createPublicServer(deps: PublicServerDeps): PublicServer {
  const { logger, meters, limits, sites, agentSale } = deps
  const held = new WeakMap<IncomingMessage, Held>()
  const late = new LateRefusals({ meters })
  const arriving = new Arriving()
  let stopping = false

  const app = fastify(optionsOf((handler) => deps.adopt(limited(handler)), sendError))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', wholeBody)
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(baseHeaders)
    if (stopping)
      throw new PublicError('STOPPING', 'this seller is stopping: send the same request again later', {
        retryAfterSeconds: 10,
      })
    const { refusal } = held.get(request.raw)!
    if (refusal !== undefined) throw refused(refusal)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { method, routeOptions } = request
    meters.count(PUBLIC_REQUESTS, { status: String(reply.statusCode) })
    const fields = { method, path: routeOptions.url, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }
    logger.debug(fields, 'answered a public request')
    done()
  })
  app.setErrorHandler((error, _request, reply) => sendError(error, reply))
  app.setNotFoundHandler((_request, reply) => {
    sendError(new PublicError('NOT_FOUND', 'there is nothing at this path. GET /x402 lists the agents for sale'), reply)
  })

  app.options('/*', (_request, reply) => {
    reply.code(204).headers(preflightHeaders).header('allow', 'POST, GET, HEAD, OPTIONS').send()
  })
  const answerGet = (request: FastifyRequest, reply: FastifyReply, json: () => object) => {
    if (isBrowser(request)) reply.headers(pageHeaders).send(publicPage)
    else reply.type('application/json').send(JSON.stringify(json()))
  }
  for (const path of ['/', '/x402']) app.get(path, (request, reply) => answerGet(request, reply, deps.index))
  app.get('/openapi.json', (_request, reply) => {
    reply.type('application/json').send(JSON.stringify(deps.openApi()))
  })
  app.get('/x402/:id', async (request, reply) => {
    if (isBrowser(request)) return reply.headers(pageHeaders).send(publicPage)
    const asked = agentSale.find(idIn(request), request.headers)
    using _work = atWork(held.get(request.raw)!)
    await agentSale.answerGet(asked, { about: describe(asked), check: checkOf(request) }, reply)
    return reply
  })

  const checkOf = ({ raw }: FastifyRequest) => limits.checkOf(held.get(raw)!.site, isPaid(raw))
  const sellAt = (url: string, { isStreamed }: { isStreamed: boolean }) => ({
    method: 'POST' as const,
    url,
    onRequest: async (request: FastifyRequest, reply: FastifyReply) => {
      const own = held.get(request.raw)!
      own.asked = agentSale.find(idIn(request), request.headers, { isStreamed })
      checkLength(request)
      if (agentSale.answerEarly(own.asked, reply)) return reply
      own.form = taskForm(request.headers['content-type'], request.headers['content-encoding'])
    },
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const own = held.get(request.raw)!
      using _work = atWork(own)
      const body = { bytes: bytesIn(request), form: own.form!, check: checkOf(request) }
      await agentSale.sell(own.asked!, body, reply)
      return reply
    },
  })
  for (const mount of deps.mounts ?? []) {
    const work = ({ raw }: FastifyRequest) => atWork(held.get(raw)!)
    app.register(publicMount(mount, { logger, enter: checkLength, atWork: work, checkOf }))
  }
  app.route(sellAt('/x402/:id', { isStreamed: false }))
  app.route(sellAt('/x402/:id/stream', { isStreamed: true }))

  /** Refuses a request beyond the limit of its address before Fastify sees it. */
  function limited(handler: RequestHandler): RequestHandler {
    return (request: IncomingMessage, response: ServerResponse) => {
      const site = sites.siteOf(request)
      const entered = stopping ? undefined : limits.enter(site, isPaid(request), () => arriving.endOldest())
      if (entered === 'each') return void late.refuse(site, request, response)
      const own: Held = { site, holds: [], isAtWork: false, isClosed: false }
      if (entered === 'all') own.refusal = entered
      else if (entered !== undefined) own.holds.push(entered)
      if (own.holds.length > 0) arriving.add(request, response, () => giveUp(own))
      held.set(request, own)
      bodyInRoom(request, lengthOf(request) ?? BODY_BYTES_MAX, (bytes) => take(own, limits.hold(site, bytes)))
      answerInRoom(request, response, { take: (bytes) => limits.hold(site, bytes), refusal: noRoom })
      response.once('close', () => leave(own))
      handler(request, response)
    }
  }

  function sendError(error: unknown, reply: FastifyReply): FastifyReply {
    if (!reply.hasHeader('x-content-type-options')) reply.headers(baseHeaders)
    if (stopping || isMuchUnread(reply.request.raw)) reply.header('connection', 'close')
    const refusal = refusalOf(error)
    if (refusal === undefined) logger.error({ err: error }, 'a public request failed inside the node')
    const { status, headers, body } =
      refusal ?? new PublicError('INTERNAL', 'this node failed; its operator has the cause')
    return reply.code(status).headers(headers).type('application/json').send(body)
  }

  return {
    app,
    refuseRequests() {
      stopping = true
    },
  }
}

function describe({ agentId, offer, resource }: Asked): object {
  const how = { method: 'POST', url: resource.url, stream_url: `${resource.url}/stream`, body: { task: '…' } }
  return { agent_id: agentId, ...offer?.text, price_atomic: offer?.agent.amount.toString(), how }
}

/** The caller may leave, and the work for it goes on. */
function atWork(own: Held): Hold {
  own.isAtWork = true
  return new Hold(() => {
    own.isAtWork = false
    if (own.isClosed) release(own)
  })
}

/** The client has left. The work for it may go on. */
function leave(own: Held): void {
  own.isClosed = true
  if (!own.isAtWork) release(own)
}

/** The client is sent away before all of its request has come. */
function giveUp(own: Held): void {
  own.isClosed = true
  release(own)
}

function release({ holds }: Held): void {
  for (const hold of holds.splice(0)) hold[Symbol.dispose]()
}

function optionsOf(
  adopt: PublicServerDeps['adopt'],
  sendError: (error: unknown, reply: FastifyReply) => void,
): FastifyHttpOptions<HttpServer> {
  return {
    bodyLimit: BODY_BYTES_MAX,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 64, ignoreTrailingSlash: true },
    schemaController: { compilersFactory: { buildValidator: notUsed, buildSerializer: notUsed } },
    serverFactory: adopt,
    clientErrorHandler: () => {},
    frameworkErrors: (error, _request, reply) => sendError(error, reply),
  }
}

function notUsed(): never {
  throw new Error('not used')
}

function take(own: Held, taken: Hold | Refusal): void {
  if (!(taken instanceof Hold)) throw refused(taken)
  // Of a client that has left, what had come may still be read.
  if (own.isClosed && !own.isAtWork) taken[Symbol.dispose]()
  else own.holds.push(taken)
}

function refused(limit: Refusal): PublicError {
  if (limit === 'each') return tooManyRequests()
  return new PublicError('BUSY', 'this node has too many requests now', { retryAfterSeconds: 2 })
}

function noRoom(): PublicError {
  const many = 'too many answers wait to be read: send the same request again, a payment with it buys nothing twice'
  return new PublicError('BUSY', many, { retryAfterSeconds: 2 })
}

function isPaid({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['payment-signature'] !== undefined || headers['x-payment'] !== undefined
}

function bytesIn({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}

function isBrowser({ headers }: FastifyRequest): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? '')
}

/** @throws PublicError NOT_FOUND */
function idIn({ params }: FastifyRequest): string {
  const id = AgentId.safeParse((params as { id: string }).id)
  if (id.success) return id.data
  throw new PublicError('NOT_FOUND', 'this is no id of an agent. GET /x402 lists the agents for sale')
}

function lengthOf({ headers }: Pick<IncomingMessage, 'headers'>): number | undefined {
  const length = headers['content-length']
  return length === undefined ? undefined : Number(length)
}

/** @throws PublicError BODY_TOO_LARGE before anything is read */
function checkLength(request: FastifyRequest): void {
  if ((lengthOf(request) ?? 0) <= BODY_BYTES_MAX) return
  throw new PublicError('BODY_TOO_LARGE', `the limit of a body is ${BODY_BYTES_MAX} bytes`)
}
