// By hand: one table holds the statuses, texts and x402 numbers of our contract (D15). Libraries only set the media type.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { CodedError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/logger.ts'
import type { Problem } from '../../schema/api.ts'
import type { Caller } from '../../schema/caller.ts'
import { x402Errors } from '../../schema/x402.ts'
import { toldTo } from '../../store/store-error.ts'

/** Characters and entries of a problem, which may repeat parts of the request (T8). */
const DETAIL_LENGTH_MAX = 2000
const MESSAGE_LENGTH_MAX = 300
const ISSUES_MAX = 20

type ProblemRow = { status: number; title: string; retryable?: boolean }

/** Every error code of the API: status and title (D15). Any other error is a fault of the node: 500 without details. */
export const problems = {
  INVALID_REQUEST: { status: 400, title: 'The request is not valid' },
  IDEMPOTENCY_UNSUPPORTED: { status: 400, title: 'This operation takes no idempotency key' },
  CURSOR_INVALID: { status: 400, title: 'The cursor does not belong to this query' },
  MALFORMED_JSON: { status: 400, title: 'The body is not valid JSON' },
  WORKFLOW_INVALID: { status: 400, title: 'The workflow cannot run as it is described' },
  TOKEN_REQUIRED: { status: 401, title: 'The request needs the API token' },
  TOKEN_WRONG: { status: 401, title: 'The API token is wrong' },
  SCOPE_TOO_LOW: { status: 403, title: 'The API token does not allow this' },
  TOKEN_ENDED: { status: 403, title: 'The API token was revoked or has expired' },
  WALLET_NO_GAS: { status: 402, title: 'The wallet has too little ETH for gas' },
  OVER_PRICE: { status: 402, title: 'The price is above the limit of this call' },
  OVER_BUDGET: { status: 402, title: 'The budget does not allow this payment' },
  SELLER_NOT_ALLOWED: { status: 402, title: 'The budget does not allow this seller or agent' },
  APPROVAL_REQUIRED: { status: 402, title: 'The operator must approve this payment' },
  APPROVAL_DENIED: { status: 402, title: 'The operator has denied this payment' },
  APPROVAL_EXPIRED: { status: 402, title: 'Nobody approved this payment in time' },
  LISTING_MISMATCH: { status: 402, title: 'The seller asks for other terms than it listed' },
  TERMS_REFUSED: { status: 402, title: 'The node does not sign what the seller asks' },
  CHANNEL_NEEDED: { status: 402, title: 'The agent is sold on payment channels only' },
  SETTLES_FIRST: { status: 402, title: 'The seller settles before its agent runs' },
  INSUFFICIENT_FUNDS: { status: 402, title: 'The wallet holds too little' },
  WALLET_HAS_CODE: { status: 402, title: 'The wallet has code that refuses its payments' },
  HOST_NOT_ALLOWED: { status: 403, title: 'The Host header does not name this node' },
  ORIGIN_NOT_ALLOWED: { status: 403, title: 'Web pages of this origin may not do this' },
  FIELD_NOT_ALLOWED: { status: 403, title: 'This field cannot be set over HTTP' },
  NOT_FOUND: { status: 404, title: 'No such path' },
  UNKNOWN_AGENT: { status: 404, title: 'No agent with this identifier is known' },
  UNKNOWN_ORDER: { status: 404, title: 'No order with this identifier is known' },
  UNKNOWN_CHANNEL: { status: 404, title: 'No payment channel with this identifier is known' },
  UNKNOWN_PAYMENT: { status: 404, title: 'No payment with this identifier is known' },
  UNKNOWN_EXECUTION: { status: 404, title: 'No execution with this identifier is kept' },
  UNKNOWN_RECEIPT: { status: 404, title: 'No receipt of this payment is kept' },
  TRANSACTION_UNKNOWN: { status: 404, title: 'No such transaction is waiting' },
  UNKNOWN_IDENTITY: { status: 404, title: 'No such identity is on the chain' },
  UNKNOWN_SESSION: { status: 404, title: 'This caller and this agent have no session' },
  UNKNOWN_WEBHOOK: { status: 404, title: 'No webhook with this identifier is known' },
  UNKNOWN_SOURCE: { status: 404, title: 'No catalog with this name is configured' },
  UNKNOWN_ENTRY: { status: 404, title: 'No catalog entry with this identifier is known' },
  UNKNOWN_WORKFLOW: { status: 404, title: 'No workflow with this identifier is known' },
  UNKNOWN_APPROVAL: { status: 404, title: 'No approval with this identifier is known' },
  UNKNOWN_ALARM: { status: 404, title: 'No alarm with this identifier is known' },
  UNKNOWN_TOKEN: { status: 404, title: 'No token with this identifier is known' },
  UNKNOWN_WORKER: { status: 404, title: 'No worker with this identifier is known' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'This path does not answer this method' },
  REQUEST_TIMEOUT: { status: 408, title: 'The request did not arrive in time' },
  AMBIGUOUS_AGENT: { status: 409, title: 'Several agents fit this name' },
  AGENTS_TOO_MANY: { status: 409, title: 'This node hosts too many agents' },
  NETWORK_MISMATCH: { status: 409, title: 'The agent is sold on another network' },
  LISTINGS_FULL: { status: 409, title: 'This node keeps too many listings' },
  ALREADY_REGISTERED: { status: 409, title: 'The agent already has an identity on the chain' },
  NOT_YOUR_AGENT: { status: 409, title: 'The agent belongs to another node' },
  OWN_AGENT: { status: 409, title: 'The agent belongs to this node' },
  NEVER_CALLED: { status: 409, title: 'This node has never called the agent' },
  TRANSACTION_REVERTED: { status: 409, title: 'The contract refuses the transaction' },
  IDEMPOTENCY_CONFLICT: { status: 409, title: 'The idempotency key was sent with another request' },
  ORDER_CANCELLED: { status: 409, title: 'The order was canceled' },
  ORDER_FINAL: { status: 409, title: 'The order has ended' },
  ORDER_NOT_WAITING: { status: 409, title: 'The order already has its task' },
  ORDERS_TOO_MANY: { status: 409, title: 'Too many orders are open' },
  PAYMENT_FINAL: { status: 409, title: 'The payment has ended' },
  SETTLEMENT_NOT_FINAL: { status: 409, title: 'The chain can still take the settlement back' },
  APPROVAL_FINAL: { status: 409, title: 'The approval was decided, or has expired' },
  APPROVALS_TOO_MANY: { status: 409, title: 'Too many approvals are pending' },
  TOKENS_TOO_MANY: { status: 409, title: 'There are too many tokens' },
  WORKERS_TOO_MANY: { status: 409, title: 'There are too many workers' },
  WEBHOOK_CONFIGURED: { status: 409, title: 'The webhook is set in config.yaml' },
  WEBHOOKS_TOO_MANY: { status: 409, title: 'There are too many webhooks' },
  WORKFLOW_FINAL: { status: 409, title: 'The workflow has ended' },
  WORKFLOWS_TOO_MANY: { status: 409, title: 'Too many workflows are open' },
  CONFIG_INVALID: { status: 409, title: 'A file of the node, such as agents.yaml, is not valid' },
  INPUT_TOO_LARGE: { status: 413, title: 'The task is too large' },
  BODY_TOO_LARGE: { status: 413, title: 'The body is too large' },
  URI_TOO_LONG: { status: 414, title: 'The path is too long' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The body must be application/json' },
  TOO_MANY_ATTEMPTS: { status: 429, title: 'Too many wrong tokens', retryable: true },
  STREAMS_TOO_MANY: { status: 429, title: 'Too many streams of events are open', retryable: true },
  OVERLOADED: { status: 429, title: 'Too much work at once', retryable: true },
  HEADERS_TOO_LARGE: { status: 431, title: 'The headers are too large' },
  STORE_REFUSED: { status: 422, title: 'The ledger does not take this', retryable: false },
  INTERNAL: { status: 500, title: 'The node failed' },
  URL_REFUSED: { status: 422, title: 'The node does not buy from this address' },
  IMPORT_REFUSED: { status: 422, title: 'The agent cannot be imported' },
  SELLER_UNREACHABLE: { status: 502, title: 'The seller cannot be reached', retryable: true },
  PEER_UNREACHABLE: { status: 502, title: 'The seller cannot be reached', retryable: true },
  PROTOCOL_UNSUPPORTED: { status: 502, title: 'The seller does not speak the protocol it lists' },
  SELLER_FAILED: { status: 502, title: 'The seller failed' },
  RESULT_PENDING: { status: 502, title: 'The result has not arrived yet' },
  AGENT_FAILED: { status: 502, title: 'The agent failed' },
  AGENT_OUTPUT_TOO_LARGE: { status: 502, title: 'The output of the agent is too large' },
  AGENT_NOT_RUNNABLE: { status: 503, title: 'The agent cannot run' },
  AGENT_CANCELLED: { status: 503, title: 'The run was canceled' },
  CHAIN_UNAVAILABLE: { status: 503, title: 'The chain cannot be reached', retryable: true },
  TRANSACTION_FAILED: { status: 502, title: 'The transaction failed on the chain' },
  TRANSACTION_LOST: { status: 502, title: 'Another transaction took its place', retryable: true },
  TRANSACTION_PENDING: { status: 503, title: 'The transaction is sent and not mined yet', retryable: true },
  CHAIN_WRONG: { status: 503, title: 'The RPC endpoint serves another chain' },
  WALLET_UNAVAILABLE: { status: 503, title: 'The wallet cannot be used' },
  LEDGER_COPIED: { status: 503, title: 'Another node uses the identity of this node', retryable: false },
  LEDGER_LOST: { status: 503, title: 'The file of the ledger is gone', retryable: false },
  CLOCK_OFF: { status: 503, title: 'The clock of the node is not that of its ledger', retryable: true },
  STORE_DAMAGED: { status: 503, title: 'The ledger of the node is damaged', retryable: false },
  STORE_AWAY: { status: 503, title: 'The database of the ledger cannot be reached', retryable: true },
  STORE_IN_DOUBT: { status: 503, title: 'The change may be written: look before you ask again', retryable: false },
  STORE_IN_USE: { status: 503, title: 'Another process uses the ledger of this node', retryable: false },
  STORE_UNREADABLE: { status: 503, title: 'The database of the ledger cannot be used', retryable: false },
  STORE_WRITE_FAILED: { status: 503, title: 'The node cannot write its data', retryable: true },
  STARTING: { status: 503, title: 'The node does not have all of its agents yet', retryable: true },
  STOPPING: { status: 503, title: 'The node is stopping', retryable: true },
  DEADLINE: { status: 504, title: 'The seller did not answer in time' },
  AGENT_TIMEOUT: { status: 504, title: 'The agent did not finish in time' },
} as const satisfies Record<string, ProblemRow>
export type ProblemCode = keyof typeof problems

const fastifyProblems: Record<string, [ProblemCode, string]> = {
  FST_ERR_CTP_INVALID_JSON_BODY: ['MALFORMED_JSON', 'the body cannot be parsed, or holds a key such as __proto__'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['MALFORMED_JSON', 'the body is empty: send a JSON object'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['UNSUPPORTED_MEDIA_TYPE', 'send the body as Content-Type: application/json'],
  FST_ERR_BAD_URL: ['INVALID_REQUEST', 'the path holds a malformed percent escape'],
  FST_ERR_MAX_PARAM_LENGTH: ['URI_TOO_LONG', 'an identifier in the path is too long'],
}

type Issue = { path: string; message: string }
type HttpErrorOptions = ErrorOptions & { headers?: Record<string, string>; issues?: Issue[] }

/** A refusal by the API itself. */
export class HttpError extends CodedError<ProblemCode> {
  override name = 'HttpError'
  readonly headers: Readonly<Record<string, string>>
  readonly issues: readonly Issue[]

  constructor(code: ProblemCode, detail: string, more: HttpErrorOptions = {}) {
    super(code, detail, more)
    this.headers = more.headers ?? {}
    this.issues = more.issues ?? []
  }
}

/** The refusal of input that does not fit its schema. Names each wrong field. */
export function invalid(part: 'body' | 'query' | 'path', { issues }: z.core.$ZodError): HttpError {
  const list = issues.slice(0, ISSUES_MAX).flatMap((issue) => readIssue(issue, part))
  const said = list.slice(0, 3).map(({ path, message }) => (path === '' ? message : `${path} ${message}`))
  return new HttpError('INVALID_REQUEST', `${part}: ${said.join('; ')}`, { issues: list })
}

/** The problem for a thrown error. Undefined for a fault of the node: INTERNAL. @internal Exported for its test. */
export function problemOf(error: unknown): Problem | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  const fastify = Object.hasOwn(fastifyProblems, error.code) ? fastifyProblems[error.code] : undefined
  if (fastify !== undefined) return problem(fastify[0], fastify[1])
  if (!(error instanceof CodedError)) {
    // Fastify and node:http set a status on client errors, such as a truncated body.
    const status = 'statusCode' in error ? Number(error.statusCode) : 500
    return status >= 400 && status < 500 ? problem('INVALID_REQUEST', 'the request cannot be read') : undefined
  }
  if (!hasRow(error.code)) return undefined
  const { correlationId, approvalId, orderId, retryable, issues } = error as unknown as Record<string, unknown>
  return {
    ...problem(error.code, error.message),
    ...(Array.isArray(issues) && issues.length > 0 && { errors: (issues as Issue[]).slice(0, ISSUES_MAX) }),
    ...(typeof correlationId === 'string' && { correlation_id: correlationId }),
    ...(typeof approvalId === 'string' && { approval_id: approvalId }),
    ...(typeof orderId === 'string' && { order_id: orderId }),
    ...(typeof retryable === 'boolean' && { retryable }),
  }
}

/** Returns the problem for a thrown error. A fault of the node is logged, and its details are hidden. */
export function problemFor(
  error: unknown,
  { operation, caller }: { operation: string | undefined; caller: Caller | undefined },
  logger: Logger,
): Problem {
  const known = problemOf(toldTo(caller, error))
  if (known !== undefined) return known
  const correlationId = randomUUID()
  logger.error({ err: error, correlation_id: correlationId, operation }, 'a request failed inside the node')
  if (isPartGone(error)) return { ...problem('INTERNAL', PART_GONE), correlation_id: correlationId }
  return internalProblem(correlationId)
}

export const PART_GONE =
  'the files of the program were replaced or deleted while the node runs: stop the node and start it again'

/** True if a part of the program is not there. Parts load when they are needed, and an installation takes them away. */
export function isPartGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND'
}

/** Details are hidden; the log has them under the same id. @internal Exported for its test. */
export function internalProblem(correlationId: string): Problem {
  const detail = `the node failed; its log has the cause under correlation id ${correlationId}`
  return { ...problem('INTERNAL', detail), correlation_id: correlationId }
}

/** A problem as a raw HTTP response, for a connection without a request, such as one whose bytes are not HTTP. */
export function rawProblem(code: ProblemCode, detail: string): string {
  const body = JSON.stringify(problem(code, detail))
  const head = [
    `HTTP/1.1 ${problems[code].status} ${problems[code].title}`,
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'X-Content-Type-Options: nosniff',
    'Connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

type X402Name = keyof typeof x402Errors

function hasRow(code: string): code is ProblemCode | X402Name {
  return Object.hasOwn(problems, code) || Object.hasOwn(x402Errors, code)
}

function problem(code: ProblemCode | X402Name, detail: string): Problem {
  const row: ProblemRow =
    code in problems
      ? problems[code as ProblemCode]
      : { status: 502, title: `The exchange with the seller ended in ${code}` }
  const x402 = Object.hasOwn(x402Errors, code) ? x402Errors[code as X402Name] : undefined
  const retryable = x402?.retryable ?? row.retryable
  return {
    type: `/docs#${code}`,
    title: row.title,
    status: row.status,
    detail: detail.slice(0, DETAIL_LENGTH_MAX),
    code,
    ...(x402 !== undefined && { error_code: x402.code }),
    ...(retryable !== undefined && { retryable }),
  }
}

function readIssue(issue: z.core.$ZodIssue, part: 'body' | 'query' | 'path'): Issue[] {
  const path = z.core.toDotPath(issue.path)
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, ISSUES_MAX).map((key) => ({
      path: (part === 'query' ? key : z.core.toDotPath([...issue.path, key])).slice(0, MESSAGE_LENGTH_MAX),
      message: part === 'query' ? 'is not a parameter of this operation' : 'is not a field of this request',
    }))
  }
  // A union has an issue per member. Report the member that the value was meant for, else the last and widest one.
  const members = issue.code === 'invalid_union' ? issue.errors : []
  const meant = members.find(
    ([first]) => first !== undefined && (first.code !== 'invalid_type' || first.path.length > 0),
  )
  const inner = (meant ?? members.at(-1))?.[0]?.message
  const message = (inner ?? issue.message).replace(/^Invalid input: expected (.*), received undefined$/, 'is missing')
  return [{ path: path.slice(0, MESSAGE_LENGTH_MAX), message: message.slice(0, MESSAGE_LENGTH_MAX) }]
}
