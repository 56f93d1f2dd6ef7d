import type { Logger } from '../../lib/logger.ts'
import type { McpTool, Operation } from '../../schema/agent-service.ts'
import type { AgentRuntime } from '../runtime.ts'
import { inputReader } from './task-input.ts'

type ServiceOptions = { name: string; token: string | undefined; outputBytesMax: number }
type ServiceDeps = { fetch: typeof fetch; logger: Logger; readEnv(name: string): string | undefined }

/** An agent that is one tool of an MCP server. The client loads with the first task. */
export function mcpToolRuntime(given: McpTool, options: ServiceOptions, deps: ServiceDeps): AgentRuntime {
  const { command, url, tool, input_schema: schema } = given
  const agent = { ...options, command, url, tool, read: inputReader(schema) }
  // Not the address or the program: they are private to the seller.
  return lazy('mcp', async () => (await import('./mcp-tool.ts')).openMcpTool(agent, deps))
}

/** An agent that is one operation of an HTTP API. */
export function operationRuntime(operation: Operation, options: ServiceOptions, deps: ServiceDeps): AgentRuntime {
  const { token: key, ...rest } = options
  const agent = { ...rest, operation, key, read: inputReader(operation.input_schema) }
  return lazy('operation', async () => (await import('./operation.ts')).openOperation(agent, deps))
}

function lazy(model: string, load: () => Promise<Pick<AgentRuntime, 'run'>>): AgentRuntime {
  let loaded: Promise<Pick<AgentRuntime, 'run'>> | undefined
  return {
    model,
    async run(call) {
      loaded ??= load()
      return (await loaded).run(call)
    },
  }
}
