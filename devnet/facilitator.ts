import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Hex } from 'viem'
import { generatePrivateKey } from 'viem/accounts'
import { CodedError, reasonOf } from '../src/lib/errors.ts'
import { NETWORK } from './chain.ts'
import { type PaymentBody, parsePaymentBody } from './payment-body.ts'
import { createSettlement, type Settlement } from './settlement.ts'

/** Room for a claim of 100 channels, which takes 62 kB, and more if contracts have signed the vouchers. */
const BODY_BYTES_MAX = 256 * 1024
const REQUEST_TIMEOUT_MS = 10_000
const CONFIRMATION_TIMEOUT_MS = 30_000
const CONCURRENT_MAX = 1_000

/** An x402 v2 facilitator over HTTP, on 127.0.0.1: `POST /verify`, `POST /settle`, `GET /supported`. */
export type Facilitator = {
  readonly url: string
  /** The account that pays for gas. It needs ETH. */
  readonly address: Hex
  stop(): Promise<void>
}

export type FacilitatorOptions = {
  rpcUrl: string
  /** Port of the HTTP server. The default, 0, picks a free port. */
  port?: number
  /** The key of the gas account. The default is a new key; give a key to keep the account across restarts. */
  gasKey?: Hex
  /** How long `/settle` waits for the transaction to be mined before it answers `settlement_pending`. */
  confirmationTimeoutMs?: number
}

/** @throws CodedError `PORT_IN_USE` */
export async function startFacilitator(options: FacilitatorOptions): Promise<Facilitator> {
  const settlement = await createSettlement({
    rpcUrl: options.rpcUrl,
    gasKey: options.gasKey ?? generatePrivateKey(),
    confirmationTimeoutMs: options.confirmationTimeoutMs ?? CONFIRMATION_TIMEOUT_MS,
  })
  let running = 0
  const server = createServer(async (request, response) => {
    if (running >= CONCURRENT_MAX) return send(response, { status: 503, body: { error: 'too many requests at once' } })
    running++
    try {
      send(response, await answer(request, settlement))
    } finally {
      running--
    }
  })
  server.requestTimeout = REQUEST_TIMEOUT_MS
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const inUse = `port ${options.port} is in use: choose another with --facilitator-port, or 0 for a free one`
      reject(error.code === 'EADDRINUSE' ? new CodedError('PORT_IN_USE', inUse) : error)
    })
    server.listen(options.port ?? 0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    address: settlement.address,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

type Answer = { status: number; body: object }

class RequestError extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

async function answer(request: IncomingMessage, settlement: Settlement): Promise<Answer> {
  const path = URL.parse(request.url ?? '/', 'http://facilitator')?.pathname ?? '/'
  const allowed = path === '/supported' ? 'GET' : path === '/verify' || path === '/settle' ? 'POST' : undefined
  if (allowed === undefined)
    return { status: 404, body: { error: `${path} does not exist: use POST /verify, POST /settle or GET /supported` } }
  if (request.method !== allowed) return { status: 405, body: { error: `${path} takes ${allowed}` } }
  if (path === '/supported') return { status: 200, body: settlement.supported() }
  const operation = path === '/verify' ? 'verify' : 'settle'
  try {
    const body = parsePaymentBody(await readJson(request))
    requireNetwork(body)
    return { status: 200, body: await settlement[operation](body) }
  } catch (error) {
    if (error instanceof RangeError) return { status: 400, body: refusal(operation, error.message) }
    if (error instanceof RequestError) return { status: error.status, body: { error: error.message } }
    return { status: 500, body: { error: reasonOf(error) } }
  }
}

function requireNetwork({ paymentRequirements }: PaymentBody): void {
  const { scheme, network } = paymentRequirements
  if (scheme !== 'exact' && scheme !== 'batch-settlement') {
    throw new RangeError('paymentRequirements.scheme: this facilitator settles only "exact" and "batch-settlement"')
  }
  if (network !== NETWORK) throw new RangeError(`paymentRequirements.network: this facilitator settles only ${NETWORK}`)
}

/** A 400 answer that x402 clients read as a refusal and people read as an explanation. */
function refusal(operation: 'verify' | 'settle', message: string): object {
  return operation === 'verify'
    ? { isValid: false, invalidReason: 'invalid_payload', invalidMessage: message, error: message }
    : {
        success: false,
        errorReason: 'invalid_payload',
        errorMessage: message,
        transaction: '',
        network: NETWORK,
        error: message,
      }
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    throw new RequestError(415, 'the body must be application/json')
  }
  const tooLarge = new RequestError(413, `the body must not be longer than ${BODY_BYTES_MAX} bytes`)
  if (Number(request.headers['content-length'] ?? 0) > BODY_BYTES_MAX) throw tooLarge
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) throw tooLarge
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw new RangeError('the body is not JSON')
  }
}

function send(response: ServerResponse, { status, body }: Answer): void {
  if (response.destroyed) return
  // The unread rest of an oversized body must not be read as the next request.
  const connection = status === 413 ? { connection: 'close' } : {}
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store', ...connection })
  response.end(JSON.stringify(body))
}
