import { createServer, type Server } from 'node:http'
import { extractDiscoveryInfo } from '@x402/extensions/bazaar'
import { onTestFinished } from 'vitest'
import { listen } from './loopback.ts'

type Item = Record<string, unknown>

/**
 * The entry of a catalog for a resource, made as facilitators make it: by the code of `@x402/extensions` out of the terms
 * that the resource asks for. Undefined: that code finds no valid declaration.
 */
export async function catalogItem(url: string, method = 'POST'): Promise<Item | undefined> {
  const answer = await fetch(url, { method, ...(method === 'POST' && { body: 'x' }) })
  await answer.body?.cancel()
  const terms = JSON.parse(Buffer.from(answer.headers.get('payment-required')!, 'base64').toString())
  const [accepted] = terms.accepts
  const payment = {
    ...{ x402Version: 2, accepted, payload: {} },
    resource: terms.resource,
    extensions: terms.extensions,
  }
  const found = extractDiscoveryInfo(payment as never, accepted as never)
  if (found === null) return undefined
  const { resourceUrl, x402Version, description, mimeType, serviceName, tags, extensions } = found
  return {
    ...{ resource: resourceUrl, type: found.discoveryInfo.input.type, x402Version, accepts: terms.accepts },
    ...{ lastUpdated: new Date(0).toISOString(), description, mimeType, serviceName, tags, extensions },
  }
}

/** A server that ends with the test. @returns its URL, without a slash at the end */
export async function startServer(server: Server): Promise<string> {
  const port = await listen(server)
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${port}`
}

/** A facilitator's catalog with these items: a list in pages, and a search by words if `hasSearch`. */
export async function startBazaar(items: readonly Item[], { hasSearch = true } = {}) {
  const asked: { url: string; authorization: string | undefined }[] = []
  const server = createServer(({ url = '', headers }, response) => {
    asked.push({ url, authorization: headers.authorization })
    const { pathname, searchParams: query } = new URL(url, 'http://x')
    const [limit, offset] = [Number(query.get('limit') ?? 100), Number(query.get('offset') ?? 0)]
    response.setHeader('content-type', 'application/json')
    if (pathname === '/x402/discovery/resources') {
      const pagination = { limit, offset, total: items.length }
      response.end(JSON.stringify({ x402Version: 2, items: items.slice(offset, offset + limit), pagination }))
    } else if (pathname === '/x402/discovery/search' && hasSearch) {
      const word = (query.get('query') ?? '').toLowerCase()
      const resources = items.filter((item) => JSON.stringify(item).toLowerCase().includes(word)).slice(0, limit)
      response.end(JSON.stringify({ x402Version: 2, resources, partialResults: false }))
    } else response.writeHead(404).end('{}')
  })
  return { url: `${await startServer(server)}/x402`, asked }
}
