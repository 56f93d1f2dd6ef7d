import type { Clock } from '../lib/clock.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { urlHost } from './host-name.ts'
import type { Mount } from './mount.ts'
import { apiOperations, type OperationsDeps } from './operations.ts'
import { HttpError } from './problem.ts'
import { createGuard, type GuardOptions } from './security.ts'
import { createServer } from './server.ts'

export type ApiOptions = GuardOptions & {
  /** 0: any free one. */
  port: number
}
export type ApiDeps = OperationsDeps & { clock: Clock; logger: Logger; mounts?: readonly Mount[] }

export interface Api extends Service {
  /** Where programs of this machine reach it, such as `http://127.0.0.1:8424`. The port is known once it has started. */
  readonly url: string
}

/** Requests under way may end by themselves for this long, then their signals abort … */
const STOP_GRACE_MS = 1500
/** … and after this long their connections are cut. */
const STOP_ABORT_MS = 1000

/**
 * The local HTTP API (D13–D17).
 *
 * `start` throws a CodedError: API_PORT_IN_USE, API_PORT_NOT_ALLOWED, API_HOST_UNAVAILABLE or API_TOKEN_MISSING.
 */
export function createApi(options: ApiOptions, deps: ApiDeps): Api {
  const logger = deps.logger.child({ part: 'http' })
  // `localhost` may be two addresses, and so two servers; one that any program of this machine finds is enough.
  const host = options.host === 'localhost' ? '127.0.0.1' : options.host
  const guard = createGuard({ ...options, host })
  const { app, running, refuseRequests } = createServer(apiOperations(deps), { ...deps, guard, logger })
  let { port } = options

  async function start(): Promise<void> {
    if (guard.needsToken && options.token === '') {
      throw new CodedError('API_TOKEN_MISSING', `an API on ${host} needs a token: set NODE_API_TOKEN`)
    }
    try {
      await app.listen({ host, port })
    } catch (error) {
      await app.close()
      throw startError(error, host, port)
    }
    const address = app.server.address()
    if (typeof address === 'object' && address !== null) port = address.port
    if (guard.isOpen)
      logger.warn({ host, port }, 'the API is open: whoever reaches this port can spend from the wallet')
  }

  /** Takes at most STOP_GRACE_MS + STOP_ABORT_MS. */
  async function stop(): Promise<void> {
    refuseRequests()
    const closed = app.close().then(() => true)
    if (await within(closed, STOP_GRACE_MS)) return
    running.abortAll(new HttpError('STOPPING', 'the node stopped before this was done'))
    if (await within(closed, STOP_ABORT_MS)) return
    app.server.closeAllConnections()
    await closed
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
    const fix = `port ${port} on ${host} is in use: stop the program that has it, or choose another with --api-port`
    return new CodedError('API_PORT_IN_USE', fix, options)
  }
  if (code === 'EACCES') {
    return new CodedError(
      'API_PORT_NOT_ALLOWED',
      `port ${port} needs privileges: choose one above 1023 with --api-port`,
      options,
    )
  }
  const fix = `the API cannot listen on ${host}: ${reasonOf(error)}; give an address of this machine with --api-host`
  return new CodedError('API_HOST_UNAVAILABLE', fix, options)
}

/** Whether a promise settles in time. */
async function within(promise: Promise<unknown>, limitMs: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(resolve, limitMs, false)
  try {
    return await Promise.race([promise.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}
