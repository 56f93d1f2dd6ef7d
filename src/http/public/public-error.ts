import { CodedError } from '../../lib/errors.ts'
import type { Settlement } from '../../protocols/doors/door-answers.ts'

/** The refusals of the public listener, and their status. */
const statuses = {
  INVALID_REQUEST: 400,
  PAYMENT_UNREADABLE: 400,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  PAYMENT_USED: 409,
  RESULT_GONE: 410,
  BODY_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  TOO_MANY_REQUESTS: 429,
  INTERNAL: 500,
  AGENT_FAILED: 502,
  BUSY: 503,
  STOPPING: 503,
  SETTLEMENT_UNKNOWN: 504,
} as const
type PublicErrorCode = keyof typeof statuses

type More = { settlement?: Settlement | undefined; retryAfterSeconds?: number; headers?: Record<string, string> }

/** A refusal on the public listener. Its body says what became of the money, if money was sent. */
export class PublicError extends CodedError<PublicErrorCode> {
  override name = 'PublicError'
  readonly #more: More

  constructor(code: PublicErrorCode, message: string, more: More = {}) {
    super(code, message)
    this.#more = more
  }

  get status(): number {
    return statuses[this.code]
  }

  get headers(): Record<string, string> {
    const { retryAfterSeconds, headers } = this.#more
    return { ...headers, ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }) }
  }

  get body(): string {
    const { settlement } = this.#more
    const said = { code: this.code, detail: this.message.slice(0, 1_000) }
    return JSON.stringify({ error: { ...said, ...(settlement !== undefined && { settlement }) } })
  }
}

/** The refusal of a request whose address has sent too many requests. */
export function tooManyRequests(): PublicError {
  const reason = 'too many requests from this address: send the same request again later'
  return new PublicError('TOO_MANY_REQUESTS', reason, { retryAfterSeconds: 2 })
}

/** An error as a raw HTTP response, for bytes that are no request. */
export function rawPublicError(status: string, code: string, detail: string): string {
  const body = JSON.stringify({ error: { code, detail } })
  const head = [
    `HTTP/1.1 ${status}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'X-Content-Type-Options: nosniff',
    'Connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

/** The refusal for a thrown error. Undefined for a fault of the node. */
export function refusalOf(error: unknown): PublicError | undefined {
  if (error instanceof PublicError) return error
  if (!(error instanceof Error)) return undefined
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown }
  if (code === 'BODY_TOO_LARGE' || code === 'INVALID_REQUEST') return new PublicError(code, error.message)
  if (error instanceof CodedError) return undefined
  if (code === 'FST_ERR_MAX_PARAM_LENGTH') return new PublicError('NOT_FOUND', 'there is nothing at this path')
  const isTheirs = typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500
  return isTheirs ? new PublicError('INVALID_REQUEST', 'the request cannot be read') : undefined
}
