import type { CallToolResult, PriorDiscovery } from '@modelcontextprotocol/client'
import { reasonOf } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import { ResponseTooLargeError } from '../guarded-fetch.ts'
import { type AgentCall, AgentError, outputTooLarge, runCanceled } from '../runtime.ts'
import { callOptions, connectMcp, type McpClientDeps, type McpServerAccess } from './mcp-client.ts'
import { wordsOnly } from './plain-schema.ts'
import type { ReadInput } from './task-input.ts'

const REASON_LENGTH_MAX = 300

export type McpToolAgent = McpServerAccess & { name: string; tool: string; read: ReadInput }

/**
 * Runs a task as one call of one tool, over a connection of its own: a server that has ended or restarted is found
 * again with the next task. A result with `isError` is a failed run.
 */
export function openMcpTool(agent: McpToolAgent, deps: McpClientDeps & { logger: Logger }) {
  let prior: PriorDiscovery | undefined

  async function callTool({ input, signal }: AgentCall): Promise<string> {
    const args = await agent.read(input)
    await using connection = await connectMcp(agent, prior, deps, signal)
    prior = connection.met
    const asked = { name: agent.tool, arguments: args }
    const result = await connection.client.callTool(asked, callOptions(connection.signal)).catch((error: unknown) => {
      throw connection.signal.aborted ? connection.signal.reason : error
    })
    if (result.isError === true) throw new Error(`the tool failed: ${textOf(result)}`)
    const output = resultText(result)
    if (Buffer.byteLength(output) > agent.outputBytesMax) throw outputTooLarge(agent.outputBytesMax)
    return output
  }

  return {
    async run(call: AgentCall): Promise<string> {
      try {
        return await callTool(call)
      } catch (error) {
        if (call.signal.aborted) throw runCanceled()
        if (error instanceof AgentError) throw error
        prior = undefined
        const reason = wordsOnly(reasonOf(error), REASON_LENGTH_MAX)
        deps.logger.warn({ agent_name: agent.name, reason }, 'the MCP tool behind an agent did not do its task')
        if (isTooLarge(error)) throw outputTooLarge(agent.outputBytesMax)
        throw new AgentError('AGENT_FAILED', 'the tool behind this agent gave no result')
      }
    },
  }
}

/** Text as it is. A result with pictures, sounds or files is the JSON of the whole, with their bytes as base64. */
function resultText(result: CallToolResult): string {
  const { content = [], structuredContent } = result
  const isText = content.every(({ type }) => type === 'text')
  if (isText && content.length > 0) return textOf(result)
  if (isText) return structuredContent === undefined ? '' : JSON.stringify(structuredContent)
  return JSON.stringify({ content, ...(structuredContent !== undefined && { structuredContent }) })
}

function textOf({ content = [] }: CallToolResult): string {
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
}

function isTooLarge(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof ResponseTooLargeError) return true
  return false
}
