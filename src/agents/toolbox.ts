import { createMCPClient, type MCPClient, type MCPClientConfig } from '@ai-sdk/mcp'
import type { ToolSet } from 'ai'
import { reasonOf } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { ToolServer } from '../schema/agent-service.ts'
import { mcpFetch } from './mcp-fetch.ts'
import { mcpProcess } from './mcp-process.ts'
import { AgentError, runCanceled } from './runtime.ts'

const CONNECT_TIMEOUT_MS = 20_000
/** Tools that a model may use in one task. */
const TOOLS_MAX = 128
/** Tools and pages that are read from one server, before the operator's selection applies. */
const OFFERS_MAX = 1024
const PAGES_MAX = 16
/** Characters of JSON that a model sees of one tool result. */
const RESULT_LENGTH_MAX = 200_000
/** Approximate size limit of one server answer. */
const RESPONSE_BYTES_MAX = 2 * 1024 * 1024
const REASON_LENGTH_MAX = 300

export type ToolServerAccess = ToolServer & { token: string | undefined }
export type ToolboxDeps = { fetch: typeof fetch; readEnv(name: string): string | undefined; logger: Logger }

export type Toolbox = { tools: ToolSet; close(): Promise<void> }

/**
 * Connects to every server and reads its tools. A connection lasts for one task, so that nothing of one caller remains
 * for the next. @throws AgentError if a server cannot be used; all open connections are closed then
 */
export async function openToolbox(
  servers: readonly ToolServerAccess[],
  deps: ToolboxDeps,
  signal: AbortSignal,
): Promise<Toolbox> {
  const clients: MCPClient[] = []
  const close = async () => void (await Promise.allSettled(clients.map((client) => client.close())))
  const tools: ToolSet = {}
  try {
    for (const [i, server] of servers.entries()) {
      const client = await connect(server, deps, signal)
      clients.push(client)
      const offered = Object.entries(await offersOf(client, signal)).filter(
        ([name]) => server.tools === undefined || server.tools.includes(name),
      )
      for (const [name, tool] of offered) {
        // Two servers may offer a tool of the same name.
        const unique = Object.hasOwn(tools, name) ? `${name}_${i + 1}` : name
        if (Object.keys(tools).length < TOOLS_MAX) tools[unique] = bounded(tool as ToolSet[string])
      }
      const missing = server.tools?.filter((name) => !offered.some(([offer]) => offer === name)) ?? []
      if (missing.length > 0)
        deps.logger.warn({ reason: missing.join(', ') }, 'an MCP server does not have tools it is wanted for')
    }
    return { tools, close }
  } catch (error) {
    await close()
    if (signal.aborted) throw runCanceled()
    const reason = reasonOf(error).replace(/\s+/g, ' ').slice(0, REASON_LENGTH_MAX)
    deps.logger.warn({ reason }, 'a tool server of the agent cannot be used')
    throw new AgentError('AGENT_FAILED', 'a tool server of this agent cannot be reached; try again later')
  }
}

/** Replaces the client's own `tools()`, which takes no signal and pages without limit (T7). */
async function offersOf(client: MCPClient, signal: AbortSignal): Promise<ToolSet> {
  const options = { signal, timeout: CONNECT_TIMEOUT_MS }
  let page = await client.listTools({ options })
  const all = [...page.tools]
  for (let pages = 1; page.nextCursor != null && pages < PAGES_MAX && all.length < OFFERS_MAX; pages++) {
    page = await client.listTools({ params: { cursor: page.nextCursor }, options })
    all.push(...page.tools)
  }
  return client.toolsFromDefinitions({ ...page, tools: all.slice(0, OFFERS_MAX) }) as ToolSet
}

async function connect(server: ToolServerAccess, deps: ToolboxDeps, signal: AbortSignal): Promise<MCPClient> {
  const transport = server.command === undefined ? remote(server, deps) : mcpProcess(server.command, deps.readEnv)
  return createMCPClient({
    transport,
    clientName: 'stoa',
    initializationOptions: { signal, timeout: CONNECT_TIMEOUT_MS },
    // The failing call reports the error.
    onUncaughtError: () => {},
  })
}

/** Does not follow redirects, because the token would go along (T12). */
function remote({ url = '', token }: ToolServerAccess, deps: ToolboxDeps): MCPClientConfig['transport'] {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const fetch = mcpFetch(deps.fetch, RESPONSE_BYTES_MAX) as never
  return { type: 'http', url, headers, redirect: 'error', fetch }
}

/** Cuts the result of a tool, so that it cannot fill the model's context or this node's memory. */
function bounded(tool: ToolSet[string]): ToolSet[string] {
  const { execute } = tool
  if (execute === undefined) return tool
  return {
    ...tool,
    async execute(input: never, options: never) {
      const result: unknown = await execute(input, options)
      const text = JSON.stringify(result) ?? ''
      if (text.length <= RESULT_LENGTH_MAX) return result
      const note = `… (cut: ${text.length} characters)`
      return { content: [{ type: 'text', text: text.slice(0, RESULT_LENGTH_MAX) + note }] }
    },
  } as ToolSet[string]
}
