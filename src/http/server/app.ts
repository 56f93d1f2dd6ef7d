import type { Clock } from '../../lib/clock.ts'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import type { Service } from '../../lib/lifecycle.ts'
import type { Logger } from '../../lib/logger.ts'
import { within } from '../../lib/wait.ts'
import type { ApiParts } from '../api/operations.ts'
import { urlHost } from './host-name.ts'
import { listenAt } from './listen-at.ts'
import { createListener, type RequestHandler } from './listener.ts'
import type { Mount } from './mount.ts'
import { HttpError } from './problem.ts'
import { createGuard, type GuardOptions } from './security.ts'
import type { Server } from './server.ts'

export type ApiOptions = GuardOptions & {
  /** 0: any free port. */
  port: number
}
export type ApiDeps = ApiParts & { clock: Clock; logger: Logger; mounts?: readonly Mount[] }

export interface Api extends Service {
  /** URL for programs on this machine, such as `http://127.0.0.1:8424`. The port is known after the start. */
  readonly url: string
}

/** Running requests may end by themselves for this long. Then their signals abort. */
const STOP_GRACE_MS = 1500
/** After the abort, connections are closed after this time. */
const STOP_ABORT_MS = 1000

/** The API (D13–D17). @throws API_PORT_IN_USE, API_PORT_NOT_ALLOWED, API_HOST_UNAVAILABLE, API_TOKEN_MISSING */
export function createApi(options: ApiOptions, deps: ApiDeps): Api {
  const logger = deps.logger.child({ part: 'http' })
  // `localhost` may resolve to two addresses. Listen on the IPv4 one, which every program on this machine can reach.
  const host = options.host === 'localhost' ? '127.0.0.1' : options.host
  const guard = createGuard({ ...options, host }, { identify: deps.buyer.tokens.identify })
  const listener = createListener(build, (error) => logger.error({ err: error }, 'the API could not be built'))
  let server: Server | undefined
  let stopping = false
  let { port } = options

  /** Fastify and the operations load with the first request. */
  async function build(): Promise<RequestHandler> {
    const [{ apiOperations }, { createServer }, { dashboardMount }] = await Promise.all([
      import('../api/operations.ts'),
      import('./server.ts'),
      import('../dashboard.ts'),
    ])
    const mounts = [...(deps.mounts ?? []), dashboardMount()]
    const { promise: adopted, resolve } = Promise.withResolvers<RequestHandler>()
    const adopt = (handler: RequestHandler) => {
      resolve(handler)
      return listener
    }
    server = createServer(apiOperations(deps), { ...deps, mounts, guard, logger, adopt })
    if (stopping) server.refuseRequests()
    await server.app.ready()
    return adopted
  }

  async function start(): Promise<void> {
    if (guard.needsToken && options.token === '') {
      throw new CodedError('API_TOKEN_MISSING', `an API on ${host} needs a token. Set NODE_API_TOKEN`)
    }
    port = await listenAt(listener, { host, port }).catch((error: unknown) => {
      throw startError(error, host, port)
    })
    if (guard.isOpen)
      logger.warn(
        { address: `${host}:${port}` },
        'the API is open: anyone who reaches this port can spend from the wallet',
      )
  }

  /** Takes at most STOP_GRACE_MS + STOP_ABORT_MS. */
  async function stop(): Promise<void> {
    stopping = true
    server?.refuseRequests()
    const closed = close()
    if (await within(STOP_GRACE_MS, closed)) return
    server?.running.abortAll(new HttpError('STOPPING', 'the node stopped before the request was done'))
    if (await within(STOP_ABORT_MS, closed)) return
    listener.closeAllConnections()
    await closed
  }

  async function close(): Promise<void> {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    listener.close(() => resolve())
    await closed
    await server?.app.close()
  }

  return {
    name: 'http',
    start,
    stop,
    get url() {
      return `http://${urlHost(host)}:${port}`
    },
  }
}

function startError(error: unknown, host: string, port: number): CodedError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const options = { cause: error }
  if (code === 'EADDRINUSE') {
    const fix = `port ${port} on ${host} is in use. Stop the program that uses it, or choose another port with --api-port`
    return new CodedError('API_PORT_IN_USE', fix, options)
  }
  if (code === 'EACCES') {
    return new CodedError(
      'API_PORT_NOT_ALLOWED',
      `port ${port} needs privileges. Choose a port above 1023 with --api-port`,
      options,
    )
  }
  const fix = `the API cannot listen on ${host}: ${reasonOf(error)}. Give an address of this machine with --api-host`
  return new CodedError('API_HOST_UNAVAILABLE', fix, options)
}
