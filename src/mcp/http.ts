import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { type AuthInfo, createMcpHandler } from '@modelcontextprotocol/server'
import type { Logger } from '../lib/logger.ts'
import type { Caller } from '../schema/caller.ts'
import { BODY_BYTES_MAX } from '../schema/limits.ts'
import type { MarketTools } from '../tools/tools.ts'
import { marketCall } from './market-call.ts'
import { readMessage } from './message-body.ts'
import { OpenCalls } from './open-calls.ts'
import { CALLER, callerOf, createServerFactory, SESSION } from './server.ts'

/** Bytes of a body that is searched for session messages. A longer body holds a tool call. */
const SMALL_BYTES_MAX = 64 * 1024

/** MCP over streamable HTTP, without session state. A session id only tells whose call a 2025 client cancels. */
export type McpHttp = {
  handle(request: IncomingMessage, response: ServerResponse, caller: Caller): Promise<void>
  stop(): Promise<void>
}

export function createMcpHttp(options: { version: string }, deps: { tools: MarketTools; logger: Logger }): McpHttp {
  const logger = deps.logger.child({ part: 'mcp' })
  const stopping = new AbortController()
  const calls = new OpenCalls()
  const factory = createServerFactory(options, marketCall(deps.tools, { logger, stopping: stopping.signal }), calls)
  const onerror = (error: Error) => logger.debug({ err: error }, 'an MCP request was refused')
  const limits = { maxRequestBodySize: BODY_BYTES_MAX, onerror }
  // Answers as a stream with keep-alive messages. An agent may work longer than clients and proxies accept silence.
  const handler = createMcpHandler(factory, { ...limits, responseMode: 'sse' })
  const handle = toNodeHandler({ fetch: (request, more) => answer(request, more) }, limits)

  async function answer(request: Request, more: Parameters<typeof handler.fetch>[1]): Promise<Response> {
    const messages = await smallMessages(request)
    const session = request.headers.get(SESSION) ?? undefined
    for (const { method, params } of messages) {
      const id = method === 'notifications/cancelled' ? params?.requestId : undefined
      if (isRequestId(id)) calls.cancel({ caller: callerOf(more?.authInfo), session, id })
    }
    const response = await handler.fetch(request, more)
    if (!response.ok || !messages.some(({ method }) => method === 'initialize')) return response
    const headers = new Headers(response.headers)
    headers.set(SESSION, randomUUID())
    return new Response(response.body, { status: response.status, headers })
  }

  return {
    async handle(request, response, caller) {
      const auth: AuthInfo = {
        token: '',
        clientId: caller.tokenId ?? 'operator',
        scopes: [caller.scope],
        extra: { [CALLER]: caller },
      }
      const message = await readMessage(request, response)
      if (message.isRefused) return
      // The adapter's request type is narrower than Node's request.
      await handle(Object.assign(request, { auth }) as Parameters<typeof handle>[0], response, message.value)
    },
    async stop() {
      stopping.abort(new Error('the node is stopping'))
      await handler.close()
    },
  }
}

type Message = { method?: unknown; params?: { requestId?: unknown } }

/** Parses a short request body. Requests about sessions are always short. */
async function smallMessages(request: Request): Promise<Message[]> {
  const length = Number(request.headers.get('content-length') ?? 0)
  if (request.method !== 'POST' || length > SMALL_BYTES_MAX) return []
  const body: unknown = await request
    .clone()
    .json()
    .catch(() => undefined)
  return [body].flat().filter((message): message is Message => typeof message === 'object' && message !== null)
}

function isRequestId(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}
