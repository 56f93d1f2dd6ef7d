import type { A2ARequestHandler } from '@a2a-js/sdk/server'
import { restHandler, UserBuilder } from '@a2a-js/sdk/server/express'
import express, { type ErrorRequestHandler } from 'express'
import type { Logger } from '../lib/logger.ts'
import type { A2aCall } from './call.ts'
import { callContext } from './call-context.ts'
import type { Body } from './request-body.ts'

/** The HTTP+JSON binding of one agent, 1.0 and 0.3, by the SDK's own routes. */
export type Rest = (call: A2aCall, body: Body, path: string) => void

export function createRest(handler: A2ARequestHandler, deps: { logger: Logger }): Rest {
  const calls = new WeakMap<object, A2aCall>()
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.use((request, _response, next) => {
    // The SDK accepts a tenant in path or query and prints a line if they differ. This node has no tenants.
    if ('tenant' in request.query) next(new PathError())
    else next()
  })
  app.use(
    restHandler({
      requestHandler: handler,
      userBuilder: UserBuilder.noAuthentication,
      legacyCompat: { enabled: true },
      contextBuilder: ({ headers, requestedVersion }) => callContext(calls.get(headers)!, requestedVersion ?? '0.3'),
    }),
  )
  app.use((_request, _response, next) => next(new PathError()))
  const onError: ErrorRequestHandler = (error: unknown, _request, response, _next) => {
    if (response.headersSent) return void response.destroy()
    if (error instanceof PathError) return sendError(response, 404, 'NOT_FOUND', 'the agent has no such method')
    deps.logger.error({ err: error }, 'an A2A request failed inside the node')
    sendError(response, 500, 'INTERNAL', 'the node failed; its log has the cause')
  }
  app.use(onError)

  return (call, body, path) => {
    const { request, response } = call
    if (body.kind === 'unsupported' || body.kind === 'malformed' || body.kind === 'invalid') {
      return sendError(response, 400, 'INVALID_ARGUMENT', body.reason)
    }
    calls.set(request.headers, call)
    request.url = path
    app(Object.assign(request, { body: body.kind === 'json' ? body.value : undefined }), response)
  }
}

class PathError extends Error {}

type RestAnswer = Pick<A2aCall['response'], 'writeHead' | 'end'>

function sendError(response: RestAnswer, code: number, status: string, message: string): void {
  response.writeHead(code, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { code, status, message, details: [] } }))
}
