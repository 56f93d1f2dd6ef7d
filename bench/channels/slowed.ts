import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** A service behind a slow way: each request waits before it is passed on. */
export async function startSlowed(target: string, ms: number): Promise<{ url: string; stop(): Promise<void> }> {
  const server = createServer(async (request, response) => {
    try {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      await delay(ms)
      const { method = 'GET', headers } = request
      const body = chunks.length === 0 ? undefined : Buffer.concat(chunks)
      const type = { 'content-type': headers['content-type'] ?? 'application/json' }
      const answer = await fetch(new URL(request.url ?? '/', target), { method, headers: type, ...(body && { body }) })
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' })
      response.end(await answer.text())
    } catch {
      response.destroy()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
