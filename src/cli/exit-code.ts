import { CodedError } from '../lib/errors.ts'

/** Exit statuses of commands. Scripts rely on them. docs/operations.md has the same table. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  refused: 4,
  sellerFailed: 5,
  unreachable: 6,
  interrupted: 130,
} as const
type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

const exitCodeMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  done: 'done',
  failed: 'failed for another reason',
  usage: 'a flag, a variable, a file or the task is not valid',
  notFound: 'the agent, order, session, workflow, token or approval does not exist',
  refused:
    'price, budget, wallet, network, listing or token do not allow the call, or the call waits for an approval; nothing was signed',
  sellerFailed: 'the seller or its agent failed',
  unreachable: 'node, seller, chain or facilitator is unreachable or did not answer in time',
  interrupted: 'stopped by Ctrl-C or SIGTERM before the end (`stoa start` exits with 0 instead)',
}

/** The Markdown table of docs/operations.md. */
export function exitCodesTable(): string {
  const rows = Object.entries(exitCodes).map(
    ([name, code]) => `| ${code} | ${exitCodeMeanings[name as keyof typeof exitCodes]} |`,
  )
  return ['| Status | Meaning |', '|---|---|', ...rows].join('\n')
}

/** Exit status by error code, matching http/server/problem and the x402 error table. Any other code: failed. */
const byErrorCode: Readonly<Record<string, ExitCode>> = {
  CONFIG_INVALID: exitCodes.usage,
  USAGE: exitCodes.usage,
  INVALID_REQUEST: exitCodes.usage,
  INPUT_TOO_LARGE: exitCodes.usage,
  BODY_TOO_LARGE: exitCodes.usage,
  AGENTS_FILE_INVALID: exitCodes.usage,
  WORKFLOW_INVALID: exitCodes.usage,
  UNKNOWN_AGENT: exitCodes.notFound,
  UNKNOWN_RESOURCE: exitCodes.notFound,
  UNKNOWN_ORDER: exitCodes.notFound,
  UNKNOWN_RECEIPT: exitCodes.notFound,
  UNKNOWN_PAYMENT: exitCodes.notFound,
  UNKNOWN_EXECUTION: exitCodes.notFound,
  TRANSACTION_UNKNOWN: exitCodes.notFound,
  UNKNOWN_IDENTITY: exitCodes.notFound,
  UNKNOWN_SESSION: exitCodes.notFound,
  UNKNOWN_WEBHOOK: exitCodes.notFound,
  UNKNOWN_WORKFLOW: exitCodes.notFound,
  UNKNOWN_TOKEN: exitCodes.notFound,
  UNKNOWN_APPROVAL: exitCodes.notFound,
  UNKNOWN_ALARM: exitCodes.notFound,
  NOT_FOUND: exitCodes.notFound,
  OVER_PRICE: exitCodes.refused,
  OVER_BUDGET: exitCodes.refused,
  WALLET_NO_GAS: exitCodes.refused,
  LISTING_MISMATCH: exitCodes.refused,
  NETWORK_MISMATCH: exitCodes.refused,
  SETTLES_FIRST: exitCodes.refused,
  IMPORT_REFUSED: exitCodes.refused,
  INSUFFICIENT_FUNDS: exitCodes.refused,
  SETTLEMENT_NOT_FINAL: exitCodes.refused,
  WALLET_HAS_CODE: exitCodes.refused,
  SCOPE_TOO_LOW: exitCodes.refused,
  SELLER_NOT_ALLOWED: exitCodes.refused,
  APPROVAL_REQUIRED: exitCodes.refused,
  APPROVAL_DENIED: exitCodes.refused,
  APPROVAL_EXPIRED: exitCodes.refused,
  TOKEN_ENDED: exitCodes.refused,
  SELLER_FAILED: exitCodes.sellerFailed,
  RESULT_PENDING: exitCodes.sellerFailed,
  INVALID_MESSAGE: exitCodes.sellerFailed,
  PAYMENT_REQUIRED: exitCodes.sellerFailed,
  PAYMENT_INVALID: exitCodes.sellerFailed,
  PAYMENT_NONCE_MISMATCH: exitCodes.sellerFailed,
  PAYMENT_NONCE_EXPIRED: exitCodes.sellerFailed,
  PAYMENT_NONCE_USED: exitCodes.sellerFailed,
  PAYMENT_AMOUNT_WRONG: exitCodes.sellerFailed,
  SETTLEMENT_FAILED: exitCodes.sellerFailed,
  EXECUTION_FAILED: exitCodes.sellerFailed,
  OVERLOADED: exitCodes.sellerFailed,
  AGENT_FAILED: exitCodes.sellerFailed,
  AGENT_TIMEOUT: exitCodes.sellerFailed,
  AGENT_OUTPUT_TOO_LARGE: exitCodes.sellerFailed,
  AGENT_NOT_RUNNABLE: exitCodes.sellerFailed,
  AGENT_CANCELLED: exitCodes.sellerFailed,
  NODE_UNREACHABLE: exitCodes.unreachable,
  API_UNREACHABLE: exitCodes.unreachable,
  API_CONNECTION_LOST: exitCodes.unreachable,
  API_TIMEOUT: exitCodes.unreachable,
  API_ANSWER_INVALID: exitCodes.unreachable,
  SELLER_UNREACHABLE: exitCodes.unreachable,
  PEER_UNREACHABLE: exitCodes.unreachable,
  PROTOCOL_UNSUPPORTED: exitCodes.unreachable,
  CHAIN_UNAVAILABLE: exitCodes.unreachable,
  CHAIN_WRONG: exitCodes.unreachable,
  TRANSACTION_PENDING: exitCodes.unreachable,
  DEADLINE: exitCodes.unreachable,
  STOPPING: exitCodes.unreachable,
}

/** Invalid input on the command line. */
export class UsageError extends CodedError<'USAGE'> {
  override name = 'UsageError'

  constructor(message: string) {
    super('USAGE', message)
  }
}

export class CliError extends CodedError<'NODE_UNREACHABLE' | 'UNKNOWN_AGENT' | 'DEADLINE' | 'FAILED'> {
  override name = 'CliError'
}

export function exitCodeOf(error: unknown): ExitCode {
  return exitCodeFor(error instanceof Error && 'code' in error ? String(error.code) : '')
}

/** The exit status for an error code that was reported, not thrown. */
export function exitCodeFor(code: string): ExitCode {
  return Object.hasOwn(byErrorCode, code) ? byErrorCode[code]! : exitCodes.failed
}
