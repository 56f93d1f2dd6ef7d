import { randomUUID } from 'node:crypto'
import type { Readable, Writable } from 'node:stream'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { BODY_BYTES_MAX, EXECUTION_SECONDS_MAX } from '../schema/limits.ts'
import { type CallTool, createServerFactory, type ToolCall } from './server.ts'
import { toolFailure } from './tool-result.ts'

/** Longer than the slowest agent and its settlement. */
const CALL_TIMEOUT_MS = (EXECUTION_SECONDS_MAX + 60) * 1000

export type StdioDeps = {
  input: Readable
  /** Carries only the protocol. */
  output: Writable
  /** Finds the running node. @throws CodedError that says how to start one */
  findNode(): Promise<{ url: string; token: string | undefined }>
  fetch: typeof fetch
  /** Writes a line for the operator. It lands in the log of the program that started this process. */
  tell(line: string): void
  signal: AbortSignal
}

/**
 * Serves MCP over standard input and output, for programs that start their own servers. It lists the tools itself and
 * forwards each call to the running node. All such programs share the node's wallet and budget. The node may start
 * later. Resolves when the other side has closed, or `signal` aborts.
 */
export async function serveMcpStdio(options: { version: string }, deps: StdioDeps): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  for (const event of ['end', 'close', 'error']) deps.input.once(event, () => end())
  deps.signal.addEventListener('abort', () => end(), { once: true })
  if (deps.signal.aborted) end()
  // Base64 or JSON escapes can double the size of a task.
  const transport = new StdioServerTransport(deps.input, deps.output, { maxBufferSize: 2 * BODY_BYTES_MAX })
  const onerror = (error: Error) => deps.tell(`mcp: ${error.message}`)
  const handle = serveStdio(createServerFactory(options, nodeCall(options, deps)), { transport, onerror })
  await ended
  await handle.close()
}

/** Over a new connection: the node may have restarted at another address since the last call. */
function nodeCall(options: { version: string }, deps: StdioDeps): CallTool {
  return async (name, args, call) => {
    const key = name === 'execute_agent' ? (args.idempotency_key ?? randomUUID()) : undefined
    const asked = { name, arguments: key === undefined ? args : { ...args, idempotency_key: key } }
    const first = await askNode(asked, call, options, deps)
    // A call with a key is done once, so it is safe to repeat (D38).
    const isLost = 'lost' in first && first.isSent && key !== undefined && !call.signal.aborted
    const answer = isLost ? await askNode(asked, call, options, deps) : first
    if (!('lost' in answer)) return answer
    const again = key === undefined ? 'check before you repeat it' : `with idempotency_key ${key} it is not done twice`
    const { lost, isSent } = answer
    if (lost instanceof CodedError && !isLost) return toolFailure({ code: lost.code, message: lost.message })
    const may = isSent || isLost ? `. The request may have been done: ${again}` : ''
    return toolFailure({ code: 'NODE_UNREACHABLE', message: `the node gave no answer: ${reasonOf(lost)}${may}` })
  }
}

type MissingAnswer = { lost: unknown; isSent: boolean }

async function askNode(
  asked: { name: string; arguments: Record<string, unknown> },
  { signal, progress }: ToolCall,
  options: { version: string },
  deps: StdioDeps,
): Promise<CallToolResult | MissingAnswer> {
  const client = new Client({ name: 'stoa-mcp', version: options.version }, { versionNegotiation: { mode: 'auto' } })
  let isSent = false
  try {
    const { url, token } = await deps.findNode()
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const requestInit: RequestInit = { headers, redirect: 'error' }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit, fetch: deps.fetch }))
    isSent = true
    const onprogress = ({ message = 'at work' }: { message?: string | undefined }) => progress(message)
    return await client.callTool(asked, { signal, timeout: CALL_TIMEOUT_MS, onprogress })
  } catch (error) {
    return { lost: error, isSent }
  } finally {
    await client.close().catch(() => {})
  }
}
