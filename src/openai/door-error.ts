import { CodedError } from '../lib/errors.ts'

/** The body of an error as OpenAI's API has it. SDKs read `message` only if it is a string. */
type ErrorBody = { error: { message: string; type: string; param: string | null; code: string | null } }

type DoorErrorOptions = ErrorOptions & {
  status: number
  type: string
  code: string
  /** The field of the request that is wrong. */
  param?: string
  headers?: Readonly<Record<string, string>>
}

/** A refusal or a failure as OpenAI's clients understand it. Its status decides whether SDKs send the request again. */
export class DoorError extends Error {
  override name = 'DoorError'
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: ErrorBody

  constructor(message: string, { status, type, code, param, headers = {}, ...options }: DoorErrorOptions) {
    super(message, options)
    this.status = status
    this.headers = headers
    this.body = { error: { message, type, param: param ?? null, code } }
  }
}

/** Tells the SDKs not to send the request again, for any status. */
const NO_RETRY = { 'x-should-retry': 'false' } as const

export function invalidRequest(param: string, message: string): DoorError {
  return new DoorError(message, { status: 400, type: 'invalid_request_error', code: 'invalid_value', param })
}

/** SDKs send the request again by themselves. @param reason what was not found */
export function stillStarting(reason: string): DoorError {
  const message = `${reason}; this node has just started, and does not have all of its agents yet: try again`
  return new DoorError(message, { ...away, headers: { 'retry-after': '2' } })
}

export function unsupported(param: string, message: string): DoorError {
  return new DoorError(message, { status: 400, type: 'invalid_request_error', code: 'unsupported_parameter', param })
}

/** What the run of an agent left behind when it failed. */
type Failed = {
  /** True if the payment was signed, so money may have moved. */
  isSigned: boolean
  orderId: string | undefined
  /** Which setting of the door refused, and how to go on. */
  hint?: string | undefined
}

type Row = Pick<DoorErrorOptions, 'status' | 'type' | 'code' | 'headers'>

const budget: Row = { status: 402, type: 'insufficient_quota', code: 'budget_exceeded' }
const forbidden: Row = { status: 403, type: 'permission_error', code: 'not_allowed' }
const unknown: Row = { status: 404, type: 'invalid_request_error', code: 'model_not_found' }
const upstream: Row = { status: 502, type: 'upstream_error', code: 'upstream_error' }
const away: Row = { status: 503, type: 'server_error', code: 'node_unavailable', headers: { 'retry-after': '5' } }
const final: Row = { status: 503, type: 'server_error', code: 'node_unavailable', headers: NO_RETRY }

/** Errors before a signature. All others are failures of the seller, or of its agent. */
const rows: Readonly<Record<string, Row>> = {
  OVER_PRICE: budget,
  OVER_BUDGET: budget,
  INSUFFICIENT_FUNDS: budget,
  TOKEN_ENDED: { status: 401, type: 'authentication_error', code: 'invalid_api_key' },
  TOKEN_REQUIRED: { status: 401, type: 'authentication_error', code: 'invalid_api_key' },
  TOKEN_WRONG: { status: 401, type: 'authentication_error', code: 'invalid_api_key' },
  SCOPE_TOO_LOW: forbidden,
  APPROVAL_REQUIRED: { ...forbidden, code: 'approval_required' },
  APPROVALS_TOO_MANY: { ...forbidden, code: 'approval_required' },
  SELLER_NOT_ALLOWED: forbidden,
  SETTLES_FIRST: forbidden,
  HOST_NOT_ALLOWED: forbidden,
  ORIGIN_NOT_ALLOWED: forbidden,
  UNKNOWN_AGENT: unknown,
  AMBIGUOUS_AGENT: unknown,
  NETWORK_MISMATCH: { status: 400, type: 'invalid_request_error', code: 'network_mismatch' },
  INPUT_TOO_LARGE: { status: 400, type: 'invalid_request_error', code: 'context_length_exceeded' },
  INVALID_REQUEST: { status: 400, type: 'invalid_request_error', code: 'invalid_request' },
  BODY_TOO_LARGE: { status: 400, type: 'invalid_request_error', code: 'context_length_exceeded' },
  NOT_FOUND: { status: 404, type: 'invalid_request_error', code: 'unknown_url' },
  METHOD_NOT_ALLOWED: { status: 405, type: 'invalid_request_error', code: 'method_not_allowed' },
  IDEMPOTENCY_CONFLICT: { status: 400, type: 'invalid_request_error', code: 'idempotency_conflict' },
  TOO_MANY_ATTEMPTS: {
    status: 429,
    type: 'rate_limit_error',
    code: 'rate_limit_exceeded',
    headers: { 'retry-after': '60' },
  },
  OVERLOADED: { status: 429, type: 'rate_limit_error', code: 'overloaded', headers: { 'retry-after': '2' } },
  ORDERS_TOO_MANY: { status: 429, type: 'rate_limit_error', code: 'overloaded', headers: { 'retry-after': '10' } },
  ORDER_CANCELLED: { status: 400, type: 'invalid_request_error', code: 'canceled' },
  AGENT_NOT_RUNNABLE: final,
  WALLET_HAS_CODE: final,
  WALLET_UNAVAILABLE: away,
  CHAIN_UNAVAILABLE: away,
  LEDGER_COPIED: final,
  LEDGER_LOST: final,
  CLOCK_OFF: away,
  STOPPING: away,
  STORE_AWAY: away,
  STORE_WRITE_FAILED: away,
  STORE_DAMAGED: final,
  STORE_UNREADABLE: final,
  STORE_IN_USE: final,
}

/** An error of a call as a client of the door gets it. Undefined: a fault of the node, which only its log may show. */
export function doorErrorOf(error: unknown, { isSigned, orderId, hint }: Failed): DoorError | undefined {
  if (error instanceof DoorError) return error
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return isSigned ? paidButFailed('the node failed after the payment was signed', orderId, error) : undefined
  }
  if (!(error instanceof CodedError)) return undefined
  if (isSigned || error.code === 'RESULT_PENDING' || error.code === 'STORE_IN_DOUBT') {
    return paidButFailed(error.message, orderId, error)
  }
  const row = Object.hasOwn(rows, error.code) ? rows[error.code]! : upstream
  return new DoorError(`${error.message}${hint === undefined ? '' : `. ${hint}`}`, { ...row, cause: error })
}

/** What a client of the door must know of a refusal that comes from a setting of the door. */
export function hintOf(
  error: unknown,
  { isOperator, isDefaultLimit }: { isOperator: boolean; isDefaultLimit: boolean },
): string | undefined {
  const { code, cause } = error as { code?: unknown; cause?: { over?: unknown } }
  if (code === 'OVER_PRICE' && isDefaultLimit) {
    return 'A name alone pays at most openai_max_price: name the agent by its id, or send max_price (USDC)'
  }
  if (code === 'OVER_BUDGET' && isOperator && cause?.over === 'token day') {
    return 'Programs without a token of their own share openai_daily_budget of config.yaml. stoa token create --per-day gives a program its own budget'
  }
  return undefined
}

/** Money may have moved: the client must not buy again by itself. */
function paidButFailed(reason: string, orderId: string | undefined, cause?: unknown): DoorError {
  const where = orderId === undefined ? 'stoa order list' : `stoa order show ${orderId}`
  const order = orderId === undefined ? '' : ` of order ${orderId}`
  const message = `${reason}. The payment${order} was signed: ${where} says what became of it. Do not send the request again`
  return new DoorError(message, { ...upstream, code: 'paid_but_failed', headers: NO_RETRY, cause })
}

/** A fault of the node. Its log has the cause under the same id. */
export function internalError(correlationId: string): DoorError {
  const message = `the node failed; its log has the cause under correlation id ${correlationId}`
  return new DoorError(message, { status: 500, type: 'server_error', code: 'internal_error', headers: NO_RETRY })
}
