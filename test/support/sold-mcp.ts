/** An MCP server for tests of `stoa sell`, over HTTP or on stdio: tools that read, change, fail, paint and hang. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import * as z from 'zod'

const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] })
const ESCAPE = '\u001b'

/** Called with each call of a tool. */
type OnCall = (tool: string, args: unknown) => void

function buildServer(onCall: OnCall = () => {}): McpServer {
  const server = new McpServer({ name: `weather${ESCAPE}[31m`, version: '1.2' })
  const readOnly = { readOnlyHint: true }
  const place = z.object({ city: z.string().meta({ examples: ['Paris'] }), days: z.int().min(1).max(7).optional() })
  server.registerTool(
    'forecast',
    {
      title: 'Forecast',
      description: `The weather.${ESCAPE}]0;owned\u0007 \u202eKnown.`,
      inputSchema: place,
      annotations: readOnly,
    },
    (args) => {
      onCall('forecast', args)
      return text(`${args.city}: sun for ${args.days ?? 1} days`)
    },
  )
  server.registerTool('book', { description: 'Books a trip.', inputSchema: z.object({ city: z.string() }) }, (args) => {
    onCall('book', args)
    return text(`booked ${args.city}`)
  })
  server.registerTool('fail', { description: 'Fails.', inputSchema: z.object({}), annotations: readOnly }, () => {
    onCall('fail', {})
    return { ...text('no key sk-secret-of-the-service'), isError: true }
  })
  server.registerTool('paint', { description: 'Paints.', inputSchema: z.object({}), annotations: readOnly }, () => ({
    content: [{ type: 'image' as const, data: 'aGk=', mimeType: 'image/png' }],
  }))
  server.registerTool(
    'measure',
    { description: 'Measures.', inputSchema: z.object({}), outputSchema: z.object({ mm: z.number() }) },
    () => ({
      content: [],
      structuredContent: { mm: 3 },
    }),
  )
  server.registerTool(
    'shout',
    { description: 'Says much.', inputSchema: z.object({ megabytes: z.number() }) },
    (args) => text('x'.repeat(args.megabytes * 1e6)),
  )
  server.registerTool('hang', { description: 'Never ends.', inputSchema: z.object({}) }, async (_args, context) => {
    onCall('hang', {})
    await new Promise((resolve) => context.mcpReq.signal.addEventListener('abort', resolve, { once: true }))
    onCall('hang ended', {})
    return text('late')
  })
  return server
}

export type SoldMcp = AsyncDisposable & {
  url: string
  calls: [tool: string, args: unknown][]
  headers: Record<string, unknown>[]
}

export async function startSoldMcp(port = 0): Promise<SoldMcp> {
  const calls: SoldMcp['calls'] = []
  const headers: SoldMcp['headers'] = []
  const handle = toNodeHandler(createMcpHandler(() => buildServer((...call) => void calls.push(call))))
  const server = createServer((request, response) => {
    if (request.url !== '/mcp') return void response.writeHead(404).end()
    headers.push(request.headers)
    void handle(request as Parameters<typeof handle>[0], response)
  })
  await once(server.listen(port, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    calls,
    headers,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The program that serves the same tools on stdio. It writes its pid into the file that its argument names when a call hangs. */
export const soldMcpProgram = fileURLToPath(import.meta.url)
if (process.argv[1] === soldMcpProgram) {
  const [, , file] = process.argv
  serveStdio(() =>
    buildServer((tool) => file !== undefined && tool === 'hang' && writeFileSync(file, String(process.pid))),
  )
}
