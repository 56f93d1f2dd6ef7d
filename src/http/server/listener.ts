import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isPartGone, PART_GONE, rawProblem } from './problem.ts'

// An `import` reads every export and so loads all of undici, which takes 12 ms of each start.
const { createServer } = process.getBuiltinModule('node:http')

/** Bytes of a request's headers. Browsers and proxies send a few KiB. */
const HEAD_BYTES_MAX = 16 * 1024
/** Open connections. Beyond it new ones are closed: each takes a file descriptor. */
const CONNECTIONS_MAX = 1024
/** Time limits for a request's head and for the whole request to arrive. The handler limits the answer. */
const HEAD_TIMEOUT_MS = 20_000
const REQUEST_TIMEOUT_MS = 120_000
/** Idle connections close after this time: just longer than the 60 s of common proxies. */
const IDLE_TIMEOUT_MS = 65_000

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void

/**
 * The API's HTTP server with its limits. It does not listen yet. The handler is built with the first request. Without
 * it a node starts a third faster, and many nodes get no request. `build` runs once. If it fails, every request gets a
 * 500.
 */
export function createListener(build: () => Promise<RequestHandler>, onBuildError: (error: unknown) => void): Server {
  let handler: RequestHandler | undefined
  let building: Promise<RequestHandler> | undefined
  const server = createServer({
    maxHeaderSize: HEAD_BYTES_MAX,
    headersTimeout: HEAD_TIMEOUT_MS,
    connectionsCheckingInterval: HEAD_TIMEOUT_MS / 2,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: IDLE_TIMEOUT_MS,
    // The admission refuses a missing Host header, with a problem as the answer.
    requireHostHeader: false,
  })
  server.maxConnections = CONNECTIONS_MAX
  server.on('clientError', refuseBytes)
  server.on('request', (request, response) => {
    if (handler !== undefined) return handler(request, response)
    building ??= build()
    building.then(
      (built) => {
        handler = built
        built(request, response)
      },
      (error: unknown) => {
        onBuildError(error)
        request.socket.end(
          rawProblem('INTERNAL', isPartGone(error) ? PART_GONE : 'the API could not be built: stoa logs says why'),
        )
      },
    )
  })
  return server
}

/** Answers bytes that are not an HTTP request, or a request that does not arrive in time. */
function refuseBytes(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) return void socket.destroy()
  const text =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? rawProblem('REQUEST_TIMEOUT', 'the request did not arrive in time')
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? rawProblem('HEADERS_TOO_LARGE', `the headers are longer than ${HEAD_BYTES_MAX} bytes`)
        : rawProblem('INVALID_REQUEST', 'the request is not HTTP/1.1')
  socket.end(text)
  socket.destroySoon()
}
