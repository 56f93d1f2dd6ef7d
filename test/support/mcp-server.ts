/** An MCP server for tests, on stdio: `add`, `shout` (megabytes), `whoami` (its environment) and `hang`. */
import { appendFileSync } from 'node:fs'
import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import * as z from 'zod'

const [, , journal] = process.argv
if (journal !== undefined) appendFileSync(journal, `started ${process.pid}\n`)
const text = (value: unknown) => ({ content: [{ type: 'text' as const, text: String(value) }] })

serveStdio(() => {
  const server = new McpServer({ name: 'test', version: '1' })
  const numbers = z.object({ a: z.number(), b: z.number() })
  server.registerTool('add', { description: 'Adds.', inputSchema: numbers }, ({ a, b }) => text(a + b))
  server.registerTool('shout', { description: 'Says much.', inputSchema: z.object({}) }, () => text('x'.repeat(3e6)))
  server.registerTool('whoami', { description: 'Tells.', inputSchema: z.object({}) }, () =>
    text(Object.keys(process.env).join(' ')),
  )
  server.registerTool('hang', { description: 'Never ends.', inputSchema: z.object({}) }, () => new Promise(() => {}))
  return server
})
