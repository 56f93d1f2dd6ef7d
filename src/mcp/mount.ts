import type { IncomingMessage, ServerResponse } from 'node:http'
import { CodedError } from '../lib/errors.ts'
import type { Caller } from '../schema/caller.ts'
import type { McpHttp } from './http.ts'

/** Mounts MCP with the access rules of an execution (D16). Its libraries load with the first request. */
export function mcpMount(load: () => Promise<McpHttp>) {
  let loading: Promise<McpHttp> | undefined
  return {
    path: '/mcp',
    // GET and DELETE concern sessions. They get the protocol's answer of a server without sessions.
    methods: ['GET', 'POST', 'DELETE'],
    offered: () => ['POST'],
    requestHeaders: ['mcp-protocol-version', 'mcp-session-id', 'mcp-method', 'mcp-name', 'last-event-id'],
    access: () => 'private' as const,
    // The lowest scope. Each tool checks its own scope.
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
