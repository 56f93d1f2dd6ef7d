import type { Tool } from '@modelcontextprotocol/client'
import { callOptions, connectMcp, type McpClientDeps, type McpServerAccess } from './mcp-client.ts'
import { type JsonObject, SchemaError, storedSchema, wordsOnly } from './plain-schema.ts'

/** Tools that are read from one server. */
const TOOLS_MAX = 500
const TEXT_LENGTH_MAX = 2_000

/** One tool of a server, as it could be sold. */
export type OfferedTool = {
  tool: string
  title: string
  description: string
  /** True if the server says that the tool changes nothing. */
  isReadOnly: boolean
  schema: JsonObject | undefined
  /** Why it cannot be sold. */
  problem?: string
}
export type McpOffer = { name: string; version: string; protocol: string; tools: OfferedTool[] }

/** Asks a server what it is and which tools it has. @throws the error of the connection */
export async function offeredTools(
  server: McpServerAccess,
  deps: McpClientDeps,
  signal: AbortSignal,
): Promise<McpOffer> {
  await using connection = await connectMcp(server, undefined, deps, signal)
  const { client } = connection
  const { tools } = await client.listTools(undefined, callOptions(connection.signal))
  const about = client.getServerVersion()
  return {
    name: wordsOnly(about?.title ?? about?.name ?? '', 80),
    version: wordsOnly(about?.version ?? '', 40),
    protocol: wordsOnly(client.getNegotiatedProtocolVersion() ?? '', 20),
    tools: tools.slice(0, TOOLS_MAX).map(offered),
  }
}

function offered({ name, title, description = '', inputSchema, annotations = {} }: Tool): OfferedTool {
  const common = {
    tool: name,
    title: wordsOnly(title ?? annotations.title ?? name, 80),
    description: wordsOnly(description, TEXT_LENGTH_MAX),
    isReadOnly: annotations.readOnlyHint === true,
  }
  if (name.length > 128 || name !== wordsOnly(name, 128)) {
    return { ...common, schema: undefined, problem: 'its name is longer than 128 characters, or not to be seen whole' }
  }
  try {
    return { ...common, schema: storedSchema(inputSchema) }
  } catch (error) {
    if (error instanceof SchemaError) return { ...common, schema: undefined, problem: error.message }
    throw error
  }
}
