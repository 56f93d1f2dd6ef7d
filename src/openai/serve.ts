import type { ExecuteRequest } from '../buying/execute.ts'
import { CodedError } from '../lib/errors.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { type Caller, OPERATOR, permits } from '../schema/caller.ts'
import type { ExecutionProgress } from '../schema/execution.ts'
import type { Listing } from '../schema/listing.ts'
import type { OrderRecord } from '../schema/order.ts'
import { x402Errors } from '../schema/x402.ts'
import { doorErrorOf } from './door-error.ts'
import type { DoorRequest } from './request.ts'
import { type Candidate, candidates, type RoutingDeps } from './routing.ts'

export type ServeDeps = RoutingDeps & {
  execute(request: ExecuteRequest): Promise<ExecutionResult>
  /** Waits for an order, or answers from the ledger. Buys nothing. */
  again(orderId: string, waiting: { signal: AbortSignal }): Promise<ExecutionResult | 'given up'>
  /** The order that was made with this idempotency key. */
  orderOf(key: string, caller: Caller): Promise<OrderRecord | undefined>
}

/** What a client that waits is told while its call runs. */
export type Following = {
  /** An agent is asked. */
  onAttempt(listing: Listing, attempt: number, orderId: string | undefined): void
  /** From here on no other agent is asked: the payment is signed, or output comes. */
  onBound(): void
  onOutput(text: string): void
}

type RoutedCall = {
  request: DoorRequest
  /** Who pays. */
  caller: Caller
  /** True if the operator of this node asks: own agents cost the operator nothing. */
  isOperator: boolean
  autoMaxPrice: bigint
  /** Idempotency keys of the attempts begin with it. */
  key: string
  /** Keys of earlier calls that may have been for this request. The client says that it sends it again. */
  earlier: readonly string[]
  following: Following
  signal: AbortSignal
}

export type Served = { listing: Listing; result: ExecutionResult; attempts: number }

/** An order that a call has made. */
type Made = {
  listing: Listing
  attempts: number
  /** True if the payment was signed, so money may have moved. */
  isSigned: boolean
  /** True if the client has seen output. */
  isShown?: boolean
  orderId: string | undefined
}

/** A failed call, with what its client must know of it. */
class CallFailed extends Error {
  override name = 'CallFailed'
  readonly made: Made

  constructor(cause: unknown, made: Made) {
    super('the call failed', { cause })
    this.made = made
  }
}

/** Agents that are asked for one request. */
const ATTEMPTS_MAX = 3

/** Errors after which another agent may do better. Errors of the budget, the caller and the node hold for all agents. */
const elsewhere: ReadonlySet<string> = new Set([
  ...Object.keys(x402Errors),
  ...['UNKNOWN_AGENT', 'SELLER_NOT_ALLOWED', 'LISTING_MISMATCH', 'SETTLES_FIRST', 'NETWORK_MISMATCH', 'OVER_PRICE'],
  ...['SELLER_UNREACHABLE', 'PEER_UNREACHABLE', 'PROTOCOL_UNSUPPORTED', 'SELLER_FAILED', 'OVERLOADED', 'DEADLINE'],
  ...['AGENT_FAILED', 'AGENT_NOT_RUNNABLE', 'AGENT_TIMEOUT', 'AGENT_OUTPUT_TOO_LARGE'],
])

/**
 * Buys the answer to a request. If an agent fails before anything is signed or shown, the next one is asked. An agent
 * that was paid ends the request: the door never buys twice.
 *
 * @throws CallFailed; DoorError if no agent fits
 */
export async function serve(call: RoutedCall, deps: ServeDeps): Promise<Served> {
  const { request, caller, autoMaxPrice, isOperator } = call
  const before = await earlierAttempt(call, deps)
  if (before !== undefined && (isBound(before.order) || !isFailed(before.order))) {
    return takeUp(before.order, before.attempt, call, deps)
  }
  const { models: names, maxPrice: asked } = request
  const found = candidates({ names, asked, autoMaxPrice, isOperator, maySpend: permits(caller.scope, 'spend') }, deps)
  const first = before?.attempt ?? 0
  const key = before?.key ?? call.key
  let failure: unknown
  for (const [place, candidate] of found.slice(0, ATTEMPTS_MAX).entries()) {
    try {
      return await attempt(candidate, { ...call, key }, first + place + 1, deps)
    } catch (error) {
      deps.known.forget()
      if (!(error instanceof CallFailed) || !mayAskNext(error, call.signal)) throw error
      failure = error
    }
  }
  throw failure
}

async function attempt(
  { listing, maxPrice }: Candidate,
  call: RoutedCall,
  number: number,
  deps: ServeDeps,
): Promise<Served> {
  const { request, following, signal } = call
  const caller = listing.local && call.isOperator ? OPERATOR : call.caller
  const isFree = listing.local || listing.price === 0n
  const idempotencyKey = keyOf(call.key, number)
  let isSigning = false
  let isShown = false
  following.onAttempt(listing, number, undefined)
  const onSigning = () => {
    isSigning = true
  }
  const onProgress = ({ type, data }: ExecutionProgress) => {
    if (type === 'status') following.onAttempt(listing, number, data.order_id)
    // The agent of a free call may still be another one, until it shows something.
    if (type === 'status' ? data.status === 'running' && !isFree : request.stream) following.onBound()
    if (type !== 'output') return
    isShown = request.stream
    following.onOutput(data.text)
  }
  try {
    const asked = {
      agentId: listing.id,
      input: request.task,
      ...(maxPrice !== undefined && { maxPriceAtomic: maxPrice }),
    }
    const result = await deps.execute({ ...asked, caller, idempotencyKey, signal, onSigning, onProgress })
    return { listing, result, attempts: number }
  } catch (error) {
    // The guard may have refused right before the signature. An order that cannot be read counts as signed.
    const order = await deps.orderOf(idempotencyKey, caller).catch(() => 'unknown' as const)
    const isSigned = isSigning && !listing.local && (order === 'unknown' || (order !== undefined && isBound(order)))
    const orderId = order === 'unknown' ? undefined : order?.id
    throw new CallFailed(error, { listing, attempts: number, isSigned, isShown, orderId })
  }
}

function mayAskNext({ cause, made }: CallFailed, signal: AbortSignal): boolean {
  if (made.isSigned || made.isShown || signal.aborted) return false
  return cause instanceof CodedError && elsewhere.has(cause.code)
}

type Earlier = { key: string; attempt: number; order: OrderRecord }

/** The last order of this request, made before a restart or by another process. */
async function earlierAttempt({ earlier, caller }: RoutedCall, deps: ServeDeps): Promise<Earlier | undefined> {
  for (const key of earlier) {
    for (let attempt = ATTEMPTS_MAX * 2; attempt > 0; attempt--) {
      const order = await deps.orderOf(keyOf(key, attempt), caller)
      if (order !== undefined) return { key, attempt, order }
    }
  }
  return undefined
}

/** Waits for an order that runs, or answers from the ledger. Nothing is bought again. @throws CallFailed */
async function takeUp(order: OrderRecord, attempts: number, call: RoutedCall, deps: ServeDeps): Promise<Served> {
  const listing = deps.search.find(order.agent_id)
  if (listing === undefined) throw new CodedError('UNKNOWN_AGENT', `the agent of order ${order.id} is not listed now`)
  call.following.onAttempt(listing, attempts, order.id)
  call.following.onBound()
  return againOf({ listing, attempts, isSigned: isBound(order), orderId: order.id }, call.signal, deps)
}

/** The outcome of an order that was made before. @throws CallFailed */
async function againOf(
  made: Made & { orderId: string },
  signal: AbortSignal,
  deps: Pick<ServeDeps, 'again'>,
): Promise<Served> {
  const { listing, attempts, orderId } = made
  try {
    const result = await deps.again(orderId, { signal })
    if (result !== 'given up') return { listing, attempts, result }
    throw new CodedError('ORDER_CANCELLED', 'the client left before the payment was signed; nothing was paid')
  } catch (error) {
    throw new CallFailed(error, made)
  }
}

/** How a call that has ended answers the same request: from its order. What cost nothing may run again. */
export function answeringAgain(deps: Pick<ServeDeps, 'again'>) {
  const from = (made: Made) => {
    const { orderId } = made
    return orderId === undefined ? undefined : (signal: AbortSignal) => againOf({ ...made, orderId }, signal, deps)
  }
  return {
    afterResult: ({ listing, attempts, result: { order_id: orderId, payment } }: Served) =>
      from({ listing, attempts, isSigned: payment !== null, orderId }),
    afterFailure: (error: unknown) =>
      error instanceof CallFailed && error.made.isSigned ? from(error.made) : undefined,
  }
}

const isFailed = ({ status }: OrderRecord) => status === 'failed' || status === 'cancelled'
/** True if the payment of an order was signed. */
const isBound = ({ payment }: OrderRecord) => payment !== undefined

function keyOf(key: string, attempt: number): string {
  return `${key}.${attempt}`
}

/** The error that a client gets. Undefined: a fault of the node. */
export function answerTo(error: unknown) {
  if (!(error instanceof CallFailed)) return doorErrorOf(error, { isSigned: false, orderId: undefined })
  return doorErrorOf(error.cause, error.made)
}
