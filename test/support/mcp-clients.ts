import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

/** The protocol of 2026 if the server supports it, or the protocol of 2025. */
export type Era = 'auto' | 'legacy'
export type Answer = {
  isError?: boolean
  structuredContent?: Record<string, unknown>
  content: { type: string; text: string }[]
  _meta?: Record<string, unknown>
}

export const bearer = (token: string | undefined): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` }

/** Official MCP clients. They stay open until all are closed together. */
export class McpClients {
  readonly #clients: Client[] = []

  make(era: Era): Client {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: era } })
    this.#clients.push(client)
    return client
  }

  async overHttp(url: string, era: Era, token?: string): Promise<Client> {
    const client = this.make(era)
    const requestInit = { headers: bearer(token) }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }))
    return client
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.splice(0).map((client) => client.close()))
  }
}
