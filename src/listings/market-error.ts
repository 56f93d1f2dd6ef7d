import { CodedError } from '../lib/errors.ts'
import { type Caller, ownerSeen, permits } from '../schema/caller.ts'

type MarketErrorCode =
  | 'UNKNOWN_AGENT'
  | 'AMBIGUOUS_AGENT'
  | 'UNKNOWN_ORDER'
  | 'UNKNOWN_SESSION'
  | 'UNKNOWN_WORKFLOW'
  | 'UNKNOWN_TOKEN'
  | 'TOKENS_TOO_MANY'
  | 'TOKEN_ENDED'
  | 'SELLER_NOT_ALLOWED'
  | 'APPROVAL_REQUIRED'
  | 'APPROVAL_FINAL'
  | 'APPROVALS_TOO_MANY'
  | 'UNKNOWN_APPROVAL'
  | 'UNKNOWN_ALARM'
  | 'SCOPE_TOO_LOW'
  | 'OVER_PRICE'
  | 'OVER_BUDGET'
  | 'LISTING_MISMATCH'
  | 'TERMS_REFUSED'
  | 'URL_REFUSED'
  | 'IMPORT_REFUSED'
  | 'NETWORK_MISMATCH'
  | 'SETTLES_FIRST'
  | 'CHANNEL_NEEDED'
  | 'INSUFFICIENT_FUNDS'
  | 'WALLET_HAS_CODE'
  | 'INPUT_TOO_LARGE'
  | 'ORDER_CANCELLED'
  | 'ORDER_FINAL'
  | 'ORDER_NOT_WAITING'
  | 'ORDERS_TOO_MANY'
  | 'WORKFLOW_FINAL'
  | 'WORKFLOW_INVALID'
  | 'WORKFLOWS_TOO_MANY'
  | 'SELLER_UNREACHABLE'
  | 'SELLER_FAILED'
  | 'RESULT_PENDING'
  | 'DEADLINE'
  | 'LEDGER_COPIED'
  | 'LEDGER_LOST'
  | 'CLOCK_OFF'

type Issue = { path: string; message: string }
type Options = ErrorOptions & {
  correlationId?: string
  approvalId?: string
  orderId?: string
  issues?: readonly Issue[]
}

/** Why a purchase did not start or did not end on the buyer's side, or why an order or workflow is refused. */
export class MarketError extends CodedError<MarketErrorCode> {
  override name = 'MarketError'
  readonly correlationId: string | undefined
  /** The approval that the order waits for. */
  readonly approvalId: string | undefined
  readonly orderId: string | undefined
  /** Each wrong field of the request. */
  readonly issues: readonly Issue[]

  constructor(code: MarketErrorCode, message: string, options: Options = {}) {
    super(code, message, options)
    this.correlationId = options.correlationId
    this.approvalId = options.approvalId
    this.orderId = options.orderId
    this.issues = options.issues ?? []
  }

  /** True only if the cause may pass by itself and nothing was signed. */
  get retryable(): true | undefined {
    return this.code === 'SELLER_UNREACHABLE' || undefined
  }
}

/** For callers that must give the whole id: a name or a part of an id could lead to another agent later. */
export function unknownAgent(agentId: string): MarketError {
  return new MarketError('UNKNOWN_AGENT', unknownAgentText(agentId))
}

export function unknownAgentText(agentId: string): string {
  return `no agent has the id ${agentId} here: stoa agent discover, GET /agents/{name} and the tool get_agent give the id for a name`
}

/** The payment is signed and its result is still to come. The node keeps asking for it, even if the caller leaves. */
export function resultPending(
  { id, correlationId }: { id: string; correlationId: string },
  { cause, why }: { cause?: unknown; why?: string | undefined } = {},
): MarketError {
  const before = why === undefined ? '' : `${why}; `
  const still = `${before}the payment is signed and the node keeps asking the seller for the result`
  const how = `order ${id} has it as soon as it comes (stoa order show ${id})`
  return new MarketError('RESULT_PENDING', `${still}; ${how}`, { cause, correlationId, orderId: id })
}

/** True if a caller may see what belongs to `owner`. An undefined owner is the operator. */
export function maySee(caller: Caller, owner: string | undefined): boolean {
  const seen = ownerSeen(caller)
  return seen === undefined || seen === owner
}

/**
 * Allows callers without the admin scope to change only what their own token placed. @throws MarketError SCOPE_TOO_LOW
 */
export function mayChange({ scope, tokenId }: Caller, owner: string | undefined, what: string): void {
  if (permits(scope, 'admin') || tokenId === owner) return
  throw new MarketError('SCOPE_TOO_LOW', `this ${what} was not placed with the token that was sent`)
}

/**
 * Aborts an order that continues after the restart.
 *
 * Unlike every other abort it does not reset the seller's stream. The run continues at the seller, and this node asks
 * for the result later.
 */
export class NodeStopping extends CodedError<'STOPPING'> {
  override name = 'NodeStopping'
  constructor() {
    super('STOPPING', 'the node is stopping')
  }
}
