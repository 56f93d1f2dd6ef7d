import type { Server as HttpServer } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import type { Service } from '../../lib/lifecycle.ts'
import { within } from '../../lib/wait.ts'
import type { DoorSales } from '../../protocols/doors/door-sales.ts'
import { urlHost } from '../server/host-name.ts'
import { listenAt } from '../server/listen-at.ts'
import type { RequestHandler } from '../server/listener.ts'
import { limitConnections } from './limit-connections.ts'
import { rawPublicError } from './public-error.ts'
import { createPublicServer, type PublicServer, type PublicServerDeps } from './public-server.ts'
import type { PublicTls, TlsState } from './public-tls.ts'

export type PublicListenerOptions = {
  host: string
  /** 0: any free port. */
  port: number
  /** Where clients reach it, without a slash at the end. Undefined: at its own address. */
  url: string | undefined
  /** Own certificate files. Undefined: plain HTTP, behind a proxy or on a network that is trusted. */
  tls?: PublicTls | undefined
  /** Time limits of requests. Default: `TIMING`. */
  timing?: Partial<typeof TIMING>
  /** Default: `CONNECTIONS_MAX`. */
  connectionsMax?: typeof CONNECTIONS_MAX
  /** How long sales under way may go on when the node stops. */
  drainMs: number
}

export interface PublicListener extends Service {
  /** The address for clients. Without `public.url` its port is known after the start. */
  readonly url: string
  /** Undefined: plain HTTP. */
  tls(): TlsState | undefined
}

type PublicListenerDeps = Omit<PublicServerDeps, 'adopt'> & { doorSales: Pick<DoorSales, 'idle' | 'abort'> }

const { createServer } = process.getBuiltinModule('node:http')
const { createServer: createTlsServer } = process.getBuiltinModule('node:https')

/** Bytes of a request's headers. A payment with the extensions that clients echo takes 4 KiB. */
const HEAD_BYTES_MAX = 16 * 1024
/** Open connections, of one address and of all. Beyond it new ones are closed: each takes a file descriptor. */
const CONNECTIONS_MAX = { each: 128, all: 2_048 }
/**
 * Time limits for a request's head and for the whole request to arrive, and for a client that reads nothing of its answer. The
 * run limits how long an answer takes.
 */
const TIMING = { headMs: 10_000, requestMs: 60_000, unreadMs: 120_000, checkEveryMs: 2_000 }
/** Just longer than the 60 s of common proxies. */
const IDLE_TIMEOUT_MS = 65_000
/** Headers of a request: a client needs some twenty. */
const HEADERS_MAX = 100
/** Time left after the drain to void what still runs. */
const STOP_ABORT_MS = 1_000

/**
 * The server that strangers reach: with limits of its own, apart from the API. It reads no token and no cookie, and has no
 * route of the API. @throws PUBLIC_PORT_IN_USE, PUBLIC_PORT_NOT_ALLOWED, PUBLIC_HOST_UNAVAILABLE, PUBLIC_TLS_UNUSABLE
 */
export function createPublicListener(options: PublicListenerOptions, deps: PublicListenerDeps): PublicListener {
  const logger = deps.logger.child({ part: 'public' })
  const { host, tls } = options
  const timing = { ...TIMING, ...options.timing }
  const limits = {
    maxHeaderSize: HEAD_BYTES_MAX,
    headersTimeout: timing.headMs,
    requestTimeout: timing.requestMs,
    connectionsCheckingInterval: timing.checkEveryMs,
    keepAliveTimeout: IDLE_TIMEOUT_MS,
  }
  const secured = tls && createTlsServer({ ...limits, minVersion: 'TLSv1.2', handshakeTimeout: timing.headMs })
  const listener: HttpServer | HttpsServer = secured ?? createServer(limits)
  listener.maxHeadersCount = HEADERS_MAX
  limitConnections(listener, deps.sites, options.connectionsMax ?? CONNECTIONS_MAX)
  const sockets = new Set<Socket>()
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  }
  listener.on('connection', keep)
  // With TLS, the inner socket counts what is written.
  secured?.on('secureConnection', keep)
  listener.on('clientError', refuseBytes)
  const unread = endUnread(sockets, timing)
  let server: PublicServer | undefined
  let { port } = options

  async function start(): Promise<void> {
    const { promise: adopted, resolve } = Promise.withResolvers<RequestHandler>()
    const adopt = (handler: RequestHandler) => {
      resolve(handler)
      return listener
    }
    if (tls !== undefined) secured?.setSecureContext(await tls.load())
    server = createPublicServer({ ...deps, logger, adopt })
    await server.app.ready()
    listener.on('request', await adopted)
    port = await listenAt(listener, { host, port }).catch((error: unknown) => {
      throw startError(error, host, port)
    })
    await tls?.follow((pair) => secured?.setSecureContext(pair))
    unread.begin()
    logger.info({ address: url() }, 'agents of this node are for sale to strangers over HTTP')
  }

  /** Takes `drainMs` and two seconds at most. */
  async function stop(): Promise<void> {
    server?.refuseRequests()
    unread.end()
    await tls?.stop()
    const closed = new Promise<void>((resolve) => listener.close(() => resolve()))
    listener.closeIdleConnections()
    await within(options.drainMs, deps.doorSales.idle())
    await Promise.all((deps.mounts ?? []).map((mount) => mount.stop()))
    deps.doorSales.abort(new Error('the node is stopping'))
    await within(STOP_ABORT_MS, deps.doorSales.idle())
    // `closeAllConnections` does not know those whose TLS handshake goes on.
    if (!(await within(STOP_ABORT_MS, closed))) for (const socket of sockets) socket.destroy()
    await closed
    await server?.app.close()
  }

  function url(): string {
    return options.url ?? `${tls === undefined ? 'http' : 'https'}://${urlHost(host)}:${port}`
  }

  return {
    name: 'public',
    start,
    stop,
    get url() {
      return url()
    },
    tls: () => tls?.state(),
  }
}

/** Ends connections whose clients do not read their answers. An unread answer stays in memory. */
function endUnread(sockets: ReadonlySet<Socket>, { unreadMs, checkEveryMs }: typeof TIMING) {
  const since = new WeakMap<Socket, { at: number; bytesWritten: number }>()
  let timer: NodeJS.Timeout | undefined
  const look = () => {
    const now = performance.now()
    for (const socket of sockets) {
      const { bytesWritten, writableLength } = socket
      const before = since.get(socket)
      if (writableLength === 0) since.delete(socket)
      else if (before === undefined || before.bytesWritten !== bytesWritten)
        since.set(socket, { at: now, bytesWritten })
      else if (now - before.at > unreadMs) socket.destroy()
    }
  }
  return {
    begin() {
      timer = setInterval(look, checkEveryMs).unref()
    },
    end: () => clearInterval(timer),
  }
}

/** Answers bytes that are not an HTTP request, or a request that does not arrive in time. */
function refuseBytes(error: Error & { code?: string }, socket: Socket): void {
  // A handshake that failed leaves a socket to which nothing can be written.
  const isTls = /^ERR_(SSL|TLS)_/.test(error.code ?? '')
  if (isTls || error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) return void socket.destroy()
  const text =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? rawPublicError('408 Request Timeout', 'REQUEST_TIMEOUT', 'the request did not arrive in time')
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? rawPublicError('431 Headers Too Large', 'HEADERS_TOO_LARGE', `the headers exceed ${HEAD_BYTES_MAX} bytes`)
        : rawPublicError('400 Bad Request', 'INVALID_REQUEST', 'the request is not HTTP/1.1')
  socket.end(text)
  socket.destroySoon()
}

function startError(error: unknown, host: string, port: number): CodedError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const options = { cause: error }
  if (code === 'EADDRINUSE') {
    const fix = `port ${port} on ${host} is in use. Stop the program that uses it, or set another public.port`
    return new CodedError('PUBLIC_PORT_IN_USE', fix, options)
  }
  if (code === 'EACCES') {
    const fix = `port ${port} needs privileges. Set public.port to a port above 1023`
    return new CodedError('PUBLIC_PORT_NOT_ALLOWED', fix, options)
  }
  const fix = `the public listener cannot listen on ${host}: ${reasonOf(error)}. Set public.host to an address of this machine`
  return new CodedError('PUBLIC_HOST_UNAVAILABLE', fix, options)
}
