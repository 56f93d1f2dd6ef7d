import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type RpcRequest = { id: number; method: string; params: unknown[] }
/** Answers a call and returns true, or returns false to forward the call. */
export type RpcFault = (request: RpcRequest, response: ServerResponse) => boolean

export type FaultyRpc = {
  readonly url: string
  readonly requests: readonly RpcRequest[]
  /** The current fault. Undefined means no fault. */
  fault: RpcFault | undefined
  stop(): Promise<void>
}

/** A real HTTP server in front of the RPC at `upstreamUrl`. It fails as the test tells it to. */
export async function startFaultyRpc(upstreamUrl: string): Promise<FaultyRpc> {
  const requests: RpcRequest[] = []
  const server = createServer((request, response) => {
    // A client may be killed during its request.
    serve(request, response).catch(() => response.destroy())
  })
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString('utf8')
    const call = JSON.parse(text) as RpcRequest
    requests.push(call)
    if (rpc.fault?.(call, response) === true) return
    const headers = { 'content-type': 'application/json' }
    const upstream = await fetch(upstreamUrl, { method: 'POST', headers, body: text })
    response.writeHead(upstream.status, headers).end(await upstream.text())
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const rpc: FaultyRpc = {
    // A URL like a provider's, with the API key in its path.
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/SECRET-API-KEY?token=SECRET-TOKEN`,
    requests,
    fault: undefined,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return rpc
}

/** A JSON-RPC error, as providers send them. */
export function refuse(
  response: ServerResponse,
  request: RpcRequest,
  message: string,
  code = -32_000,
  status = 200,
): true {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id: request.id, error: { code, message } }))
  return true
}

/** A JSON-RPC result made by the test. */
export function result(response: ServerResponse, request: RpcRequest, value: unknown): true {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id: request.id, result: value }))
  return true
}
