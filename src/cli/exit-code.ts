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
  unreachable: 'node, seller, chain, facilitator or database is unreachable or did not answer in time',
  interrupted: 'stopped by Ctrl-C or SIGTERM before the end (`stoa start` exits with 0 instead)',
}

/** The Markdown table of docs/operations.md. @internal Exported for its test. */
export function exitCodesTable(): string {
  const rows = Object.entries(exitCodes).map(
    ([name, code]) => `| ${code} | ${exitCodeMeanings[name as keyof typeof exitCodes]} |`,
  )
  return ['| Status | Meaning |', '|---|---|', ...rows].join('\n')
}

/** Error codes by exit status, matching http/server/problem and the x402 error table. Any other code: failed. */
const errorCodes: { readonly [Name in keyof typeof exitCodes]?: string } = {
  usage: `CONFIG_INVALID USAGE JOIN_TOKEN_INVALID INVALID_REQUEST INPUT_TOO_LARGE BODY_TOO_LARGE AGENTS_FILE_INVALID WORKFLOW_INVALID STORE_REFUSED
    AMBIGUOUS_AGENT`,
  notFound: `UNKNOWN_AGENT UNKNOWN_RESOURCE UNKNOWN_ORDER UNKNOWN_RECEIPT UNKNOWN_PAYMENT UNKNOWN_EXECUTION
    TRANSACTION_UNKNOWN UNKNOWN_IDENTITY UNKNOWN_SESSION UNKNOWN_WEBHOOK UNKNOWN_SOURCE UNKNOWN_ENTRY UNKNOWN_WORKFLOW UNKNOWN_TOKEN
    UNKNOWN_APPROVAL UNKNOWN_ALARM UNKNOWN_WORKER UNKNOWN_CHANNEL NOT_FOUND`,
  refused: `OVER_PRICE OVER_BUDGET WALLET_NO_GAS LISTING_MISMATCH TERMS_REFUSED URL_REFUSED NETWORK_MISMATCH SETTLES_FIRST
    CHANNEL_NEEDED IMPORT_REFUSED INSUFFICIENT_FUNDS SETTLEMENT_NOT_FINAL WALLET_HAS_CODE SCOPE_TOO_LOW SELLER_NOT_ALLOWED APPROVAL_REQUIRED
    APPROVAL_DENIED APPROVAL_EXPIRED TOKEN_REQUIRED TOKEN_WRONG TOKEN_ENDED TOKEN_UNKNOWN TOKEN_USED TOKEN_EXPIRED REVOKED`,
  sellerFailed: `SELLER_FAILED RESULT_PENDING INVALID_MESSAGE PAYMENT_REQUIRED PAYMENT_INVALID
    PAYMENT_NONCE_MISMATCH PAYMENT_NONCE_EXPIRED PAYMENT_NONCE_USED PAYMENT_AMOUNT_WRONG SETTLEMENT_FAILED
    EXECUTION_FAILED OVERLOADED AGENT_FAILED AGENT_TIMEOUT AGENT_OUTPUT_TOO_LARGE AGENT_NOT_RUNNABLE AGENT_CANCELLED`,
  unreachable: `NODE_UNREACHABLE API_UNREACHABLE SERVICE_UNREACHABLE API_CONNECTION_LOST API_TIMEOUT API_ANSWER_INVALID
    SELLER_UNREACHABLE PEER_UNREACHABLE PROTOCOL_UNSUPPORTED CHAIN_UNAVAILABLE CHAIN_WRONG TRANSACTION_PENDING
    DEADLINE STARTING STOPPING STORE_AWAY`,
}
const byErrorCode = new Map(
  Object.entries(errorCodes).flatMap(([name, codes]) =>
    codes.split(/\s+/).map((code) => [code, exitCodes[name as keyof typeof exitCodes]] as const),
  ),
)

export class UsageError extends CodedError<'USAGE'> {
  override name = 'UsageError'

  constructor(message: string) {
    super('USAGE', message)
  }
}

export class CliError extends CodedError<
  | 'NODE_UNREACHABLE'
  | 'SERVICE_UNREACHABLE'
  | 'UNKNOWN_AGENT'
  | 'UNKNOWN_ORDER'
  | 'UNKNOWN_APPROVAL'
  | 'UNKNOWN_SESSION'
  | 'UNKNOWN_PAYMENT'
  | 'UNKNOWN_CHANNEL'
  | 'DEADLINE'
  | 'FAILED'
> {
  override name = 'CliError'
}

export function exitCodeOf(error: unknown): ExitCode {
  return exitCodeFor(error instanceof Error && 'code' in error ? String(error.code) : '')
}

export function exitCodeFor(code: string): ExitCode {
  return byErrorCode.get(code) ?? exitCodes.failed
}
