import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { CodedError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import type { PaymentCheck } from '../../protocols/doors/payment-check.ts'
import { PublicError, refusalOf } from './public-error.ts'

/** A path whose requests another protocol answers: it reads bodies, within a limit, and writes answers on its own. */
export type PublicMount = {
  path: string
  /** Answers or throws. A CodedError becomes a refusal; any other error is a fault of the node. */
  handle(call: { request: IncomingMessage; response: ServerResponse; rest: string; check: PaymentCheck }): Promise<void>
  stop(): Promise<void>
}

type PublicMountDeps = {
  logger: Logger
  /** Refuses a body that is too long before it is read. @throws PublicError */
  enter(request: FastifyRequest): void
  /** Keeps what the request has taken until the end of the block. */
  atWork(request: FastifyRequest): Disposable
  checkOf(request: FastifyRequest): PaymentCheck
}

/** The routes of a mount, in a Fastify context of their own, which leaves bodies unread. */
export function publicMount(mount: PublicMount, deps: PublicMountDeps) {
  return async (context: FastifyInstance): Promise<void> => {
    context.removeAllContentTypeParsers()
    context.addContentTypeParser('*', (_request, _body, done) => done(null))
    for (const url of [mount.path, `${mount.path}/*`]) {
      context.route({
        ...{ method: ['GET', 'POST', 'DELETE'], url },
        onRequest: async (request) => deps.enter(request),
        handler: (request, reply) => answer(mount, request, reply, deps),
      })
    }
  }
}

async function answer(
  mount: PublicMount,
  request: FastifyRequest,
  reply: FastifyReply,
  { logger, atWork, checkOf }: PublicMountDeps,
): Promise<void> {
  using _work = atWork(request)
  const { raw } = request
  reply.hijack()
  // A hijacked reply loses the headers that were set.
  for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value!)
  try {
    const rest = raw.url!.slice(mount.path.length)
    await mount.handle({ request: raw, response: reply.raw, rest, check: checkOf(request) })
  } catch (error) {
    if (reply.raw.headersSent || reply.raw.destroyed) return void reply.raw.destroy()
    const refusal = refusalOf(error) ?? codedRefusal(error)
    if (refusal === undefined) logger.error({ err: error }, 'a public request failed inside the node')
    const { status, headers, body } = refusal ?? new PublicError('INTERNAL', 'this node failed')
    if (!raw.complete) reply.raw.setHeader('connection', 'close')
    reply.raw.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(body)
  }
}

const codes = {
  UNKNOWN_AGENT: 'NOT_FOUND',
  NOT_FOUND: 'NOT_FOUND',
  METHOD_NOT_ALLOWED: 'METHOD_NOT_ALLOWED',
  BODY_TOO_LARGE: 'BODY_TOO_LARGE',
  OVERLOADED: 'BUSY',
} as const

/** Undefined for a fault of the node. */
function codedRefusal(error: unknown): PublicError | undefined {
  if (!(error instanceof CodedError)) return undefined
  const code = Object.hasOwn(codes, error.code) ? codes[error.code as keyof typeof codes] : 'INVALID_REQUEST'
  return new PublicError(code, error.message)
}
