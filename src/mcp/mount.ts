import type { IncomingMessage, ServerResponse } from 'node:http'
import { CodedError } from '../lib/errors.ts'
import type { Caller } from '../schema/caller.ts'
import type { McpHttp } from './http.ts'

/** Where MCP stands in the API: one path, let in like an execution (D16). Its libraries load with the first request. */
export function mcpMount(load: () => Promise<McpHttp>) {
  let loading: Promise<McpHttp> | undefined
  return {
    path: '/mcp',
    // Those of sessions are answered too, with what the protocol has for a server that keeps none.
    methods: ['GET', 'POST', 'DELETE'],
    offered: () => ['POST'],
    requestHeaders: ['mcp-protocol-version', 'mcp-session-id', 'mcp-method', 'mcp-name', 'last-event-id'],
    access: () => 'private' as const,
    // Each tool has a scope of its own.
    scope: () => 'read' as const,
    async handle(call: {
      request: IncomingMessage
      response: ServerResponse
      rest: string
      caller: Caller
    }): Promise<void> {
      if (!/^\/?(?:\?|$)/.test(call.rest)) throw new CodedError('NOT_FOUND', 'MCP is at /mcp')
      loading ??= load().catch((error: unknown) => {
        loading = undefined
        throw error
      })
      await (await loading).handle(call.request, call.response, call.caller)
    },
    async stop(): Promise<void> {
      await (await loading?.catch(() => undefined))?.stop()
    },
  }
}
