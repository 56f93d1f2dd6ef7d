import type { IncomingMessage, ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler } from '@modelcontextprotocol/server'
import type { Logger } from '../lib/logger.ts'
import type { MarketTools } from '../market/tools.ts'
import { BODY_BYTES_MAX } from '../schema/api.ts'
import { marketCall } from './market-call.ts'
import { createServerFactory } from './server.ts'

/** MCP over streamable HTTP, without sessions: clients of 2025 and of 2026 alike. */
export type McpHttp = {
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>
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
    // The adapter asks for less than a request of Node is, in types of its own.
    handle: (request, response) => handle(request as Parameters<typeof handle>[0], response),
    async stop() {
      stopping.abort(new Error('the node is stopping'))
      await handler.close()
    },
  }
}
