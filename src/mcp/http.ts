import type { IncomingMessage, ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { type AuthInfo, createMcpHandler } from '@modelcontextprotocol/server'
import type { Logger } from '../lib/logger.ts'
import type { MarketTools } from '../market/tools.ts'
import type { Caller } from '../schema/caller.ts'
import { BODY_BYTES_MAX } from '../schema/limits.ts'
import { marketCall } from './market-call.ts'
import { CALLER, createServerFactory } from './server.ts'

/** MCP over streamable HTTP, without sessions: clients of 2025 and of 2026 alike. */
export type McpHttp = {
  handle(request: IncomingMessage, response: ServerResponse, caller: Caller): Promise<void>
  stop(): Promise<void>
}

export function createMcpHttp(options: { version: string }, deps: { tools: MarketTools; logger: Logger }): McpHttp {
  const logger = deps.logger.child({ part: 'mcp' })
  const stopping = new AbortController()
  const factory = createServerFactory(options, marketCall(deps.tools, { logger, stopping: stopping.signal }))
  const onerror = (error: Error) => logger.debug({ err: error }, 'an MCP request was refused')
  const limits = { maxRequestBodySize: BODY_BYTES_MAX, onerror }
  // As a stream, with signs of life: an agent may work for longer than clients and proxies bear silence.
  const handler = createMcpHandler(factory, { ...limits, responseMode: 'sse' })
  const handle = toNodeHandler(handler, limits)
  return {
    handle(request, response, caller) {
      const auth: AuthInfo = {
        token: '',
        clientId: caller.tokenId ?? 'operator',
        scopes: [caller.scope],
        extra: { [CALLER]: caller },
      }
      // The adapter asks for less than a request of Node is, in types of its own.
      return handle(Object.assign(request, { auth }) as Parameters<typeof handle>[0], response)
    },
    async stop() {
      stopping.abort(new Error('the node is stopping'))
      await handler.close()
    },
  }
}
