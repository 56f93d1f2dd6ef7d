import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { HTTPFacilitatorClient } from '@x402/core/server'
import { ExactEvmScheme } from '@x402/evm/exact/server'
import { paymentMiddleware, x402ResourceServer } from '@x402/express'
import express, { type Response } from 'express'

const NETWORK = 'eip155:84532'

export type WebSeller = { url: string; origin: string; stop(): Promise<void> }
export type WebRequestSeen = { method: string; path: string; headers: IncomingMessage['headers']; body: string }

/** The server of others: `@x402/express` with a facilitator. */
export async function startExpressSeller(options: {
  facilitatorUrl: string
  payTo: string
  price?: string
  /** Of the 402, such as a Bazaar declaration. */
  extensions?: Record<string, unknown>
  method?: 'GET' | 'POST'
  answer(seen: { url: string; body: string }, response: Response): void | Promise<void>
}): Promise<WebSeller> {
  const { facilitatorUrl, payTo, price = '$0.01', extensions, method = 'POST', answer } = options
  const server = new x402ResourceServer(new HTTPFacilitatorClient({ url: facilitatorUrl }))
  server.register(NETWORK, new ExactEvmScheme())
  const accepts = { scheme: 'exact', payTo, price, network: NETWORK, maxTimeoutSeconds: 60 } as const
  const route = { accepts, description: 'of others', mimeType: 'application/json', ...(extensions && { extensions }) }
  const app = express()
  app.use(paymentMiddleware({ [`${method} /run`]: route }, server))
  app.use((request, response, _next) => {
    void bodyOf(request).then((body) => answer({ url: request.url ?? '', body }, response))
  })
  return listening(createServer(app), '/run')
}

/** A server that answers as a test says. */
export async function startBareSeller(
  answer: (request: WebRequestSeen, response: ServerResponse) => void | Promise<void>,
): Promise<WebSeller & { seen: WebRequestSeen[] }> {
  const seen: WebRequestSeen[] = []
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request
    void bodyOf(request).then((body) => {
      const one = { method, path: url, headers, body }
      seen.push(one)
      return answer(one, response)
    })
  })
  return { ...(await listening(server, '/run')), seen }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  return Buffer.concat(await request.toArray()).toString('utf8')
}

async function listening(server: ReturnType<typeof createServer>, path: string): Promise<WebSeller> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    url: origin + path,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** What a seller may ask, as v2 has it. */
export function askedBy(origin: string, payTo: string, changes: Record<string, unknown> = {}) {
  const { resource = { url: `${origin}/run` }, extensions, x402Version = 2, ...offer } = changes
  const terms = {
    ...{ scheme: 'exact', network: NETWORK, amount: '10000', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e' },
    ...{ payTo, maxTimeoutSeconds: 60, extra: { name: 'USDC', version: '2' }, ...offer },
  }
  return {
    x402Version,
    error: 'Payment required',
    resource,
    accepts: [terms],
    ...(extensions !== undefined && { extensions }),
  }
}

export function headerOf(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64')
}

export function readHeader(value: string | string[] | undefined): Record<string, never> {
  return JSON.parse(Buffer.from(String(value), 'base64').toString('utf8'))
}
