import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../../lib/logger.ts'
import type { Problem } from '../../schema/api.ts'
import type { Caller } from '../../schema/caller.ts'
import type { Place } from './admission.ts'
import { urlOf } from './host-name.ts'
import { type Mount, restOf } from './mount.ts'
import { problemFor } from './problem.ts'
import type { RunningRequests } from './running.ts'

type MountRoutesDeps = {
  callerOf(request: FastifyRequest): Caller
  /** Takes a reply from Fastify, with the headers that the checks have set. */
  hijack(reply: FastifyReply): void
  running: RunningRequests
  logger: Logger
}

/** The routes of mounts. They have their own Fastify context, which leaves bodies unread. */
export function mountRoutes(mounts: readonly Mount[], methods: readonly string[], deps: MountRoutesDeps) {
  return async (context: FastifyInstance): Promise<void> => {
    context.removeAllContentTypeParsers()
    context.addContentTypeParser('*', (_request, _body, done) => done(null))
    // The admission refuses the methods that a mount lacks.
    for (const mount of mounts) {
      const handler = (request: FastifyRequest, reply: FastifyReply) => answerMount(mount, request, reply, deps)
      for (const url of [mount.path, `${mount.path}/*`]) {
        context.route({ method: [...methods], url, config: { mount } satisfies Place, handler })
      }
    }
  }
}

async function answerMount(
  mount: Mount,
  request: FastifyRequest,
  reply: FastifyReply,
  { callerOf, hijack, running, logger }: MountRoutesDeps,
): Promise<void> {
  const { raw, headers } = request
  const rest = restOf(mount, raw.url!)!
  const url = urlOf(headers) + mount.path
  hijack(reply)
  const signal = running.signalOf(reply.raw)
  try {
    await mount.handle({ request: raw, response: reply.raw, rest, url, caller: callerOf(request), signal })
  } catch (error) {
    if (reply.raw.headersSent || reply.raw.destroyed) return void reply.raw.destroy()
    const problem = problemFor(error, { operation: mount.path, caller: callerOf(request) }, logger)
    // Close the connection, because the unread rest of the body precedes the next request.
    if (!raw.complete) reply.raw.setHeader('connection', 'close')
    const { status, media, headers, body } = refusal(problem, mount)
    reply.raw.writeHead(status, { ...headers, 'content-type': media })
    reply.raw.end(JSON.stringify(body))
  }
}

/** A problem as the protocol of a mount has it. */
export function refusal(problem: Problem, mount: Mount | undefined) {
  const shaped = mount?.errorBody?.(problem)
  if (shaped === undefined)
    return { status: problem.status, media: 'application/problem+json', headers: {}, body: problem }
  const { status, headers, body } = shaped
  return { status, media: 'application/json', headers, body }
}
