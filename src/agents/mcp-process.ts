import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import type { JSONRPCMessage, MCPTransport } from '@ai-sdk/mcp'
import { GatheredBytes } from '../lib/gathered-bytes.ts'
import { readJson } from '../lib/json.ts'
import { commandEnvironment } from './command-environment.ts'
import { type ProcessGroup, processGroup } from './process-group.ts'
import { startProgram } from './start-program.ts'

/** Longest message of a server. */
const LINE_BYTES_MAX = 8 * 1024 * 1024
/** Messages of one connection. Each question of a server is answered. */
const MESSAGES_MAX = 10_000
/** Lines that are not JSON, before the server is killed. */
const STRAY_LINES_MAX = 100

/**
 * An MCP server that is a program: JSON-RPC on its standard input and output, one message per line. The program sees no
 * secret of this node's environment. Its process group ends with the connection. Its stderr is dropped.
 */
export function mcpProcess(command: readonly string[], readEnv: (name: string) => string | undefined): MCPTransport {
  let child: ChildProcessWithoutNullStreams | undefined
  let group: ProcessGroup | undefined
  let buffered = new GatheredBytes()
  let messages = 0
  let strayLines = 0

  function take(chunk: Buffer): void {
    let rest = chunk
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      buffered.add(rest.subarray(0, end))
      const line = buffered.bytes().toString('utf8')
      buffered = new GatheredBytes()
      rest = rest.subarray(end + 1)
      deliver(line)
    }
    buffered.add(rest)
    if (buffered.length <= LINE_BYTES_MAX) return
    buffered = new GatheredBytes()
    transport.onerror?.(new Error(`the server sent a line of more than ${LINE_BYTES_MAX} bytes`))
    group?.kill()
  }

  function deliver(line: string): void {
    if (line.trim() === '' || messages > MESSAGES_MAX) return
    if (++messages > MESSAGES_MAX) {
      group?.kill()
      return
    }
    try {
      const json = readJson(line)
      if (!json.ok) throw new Error(`a line of the server ${json.reason}`)
      transport.onmessage?.(json.value as JSONRPCMessage)
    } catch (error) {
      transport.onerror?.(error as Error)
      // Some servers print a greeting. A server that keeps printing other lines does not speak MCP.
      if (++strayLines > STRAY_LINES_MAX) group?.kill()
    }
  }

  const transport: MCPTransport = {
    async start() {
      const started = await startProgram(command, commandEnvironment(readEnv))
      child = started
      group = processGroup(started)
      started.stdout.on('data', take)
      started.stderr.resume()
      started.stdin.on('error', () => {})
      started.once('close', () => transport.onclose?.())
    },
    async send(message) {
      if (child === undefined || !child.stdin.writable) throw new Error('the server has ended')
      child.stdin.write(`${JSON.stringify(message)}\n`)
    },
    async close() {
      child?.stdin.end()
      group?.stop()
    },
  }
  return transport
}
