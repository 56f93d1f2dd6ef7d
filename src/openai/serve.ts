import type { ExecuteRequest } from '../buying/execute.ts'
import type { UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { type Caller, OPERATOR, permits } from '../schema/caller.ts'
import type { ExecutionProgress } from '../schema/execution.ts'
import type { OrderRecord } from '../schema/order.ts'
import { x402Errors } from '../schema/x402.ts'
import { endOf, isBound, isFailed, isOver } from './attempt-end.ts'
import { doorErrorOf, hintOf } from './door-error.ts'
import type { DoorRequest } from './request.ts'
import { attemptBefore, type KeyedAttempt, type RequestKeys, usedByAnother } from './request-keys.ts'
import { type Candidate, candidates, type RoutingDeps } from './routing.ts'
import { JOIN_FAILED_MS } from './shared-calls.ts'

export type ServeDeps = RoutingDeps & {
  execute(request: ExecuteRequest): Promise<ExecutionResult>
  /** Waits for an order, or answers from the ledger. Buys nothing. */
  again(orderId: string, waiting: { signal: AbortSignal }): Promise<ExecutionResult | 'given up'>
  /** The order that was made with this idempotency key. */
  orderOf(key: string, caller: Caller): Promise<OrderRecord | undefined>
  /**
   * The last order whose idempotency key has this prefix, of this token. `isOperator`: or of the operator of this node.
   * `madeMsAgo`: how long the node has run since, in ms.
   */
  lastOrder(
    prefix: string,
    of: { tokenId: string | undefined; isOperator: boolean },
  ): Promise<{ key: string; order: OrderRecord; madeMsAgo: number } | undefined>
  /** True if this process has given the result of an order to a client. */
  isGiven(orderId: string): boolean
}

/** Reports the progress of a call to a client that waits. */
export type Following = {
  /** An agent is asked. `attempt` counts from 1. */
  onAttempt(agentId: string, attempt: number, orderId: string | undefined): void
  /** The order of an earlier request answers. */
  onTaken(): void
  /** No other agent is asked any longer: the payment is signed, or output has come. */
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
  keys: RequestKeys
  now: UnixMs
  following: Following
  signal: AbortSignal
}

export type Served = { agentId: string; result: ExecutionResult; attempts: number }

/** An order that a call has made. */
type Made = {
  agentId: string
  attempts: number
  /** True if the payment was signed, so money may have moved. */
  isSigned: boolean
  /** True if the client has seen output. */
  isShown?: boolean
  /** Which setting of the door refused, and how to go on. */
  hint?: string | undefined
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

/** Errors after which another agent is asked. Errors of the budget, the caller and the node would be the same there. */
const nextAgentCodes: ReadonlySet<string> = new Set([
  ...Object.keys(x402Errors),
  ...[
    'UNKNOWN_AGENT',
    'SELLER_NOT_ALLOWED',
    'LISTING_MISMATCH',
    'SETTLES_FIRST',
    'NETWORK_MISMATCH',
    'OVER_PRICE',
    'CHANNEL_NEEDED',
  ],
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
  try {
    return await serveOnce(call, deps)
  } catch (error) {
    const cause = error instanceof CallFailed ? error.cause : undefined
    const isTaken = cause instanceof CodedError && cause.code === 'IDEMPOTENCY_CONFLICT'
    if (!isTaken) throw error
    // Another process has asked another agent for this request, and its order answers. Or the key names another request.
    return serveOnce(call, deps)
  }
}

async function serveOnce(call: RoutedCall, deps: ServeDeps): Promise<Served> {
  const { request, caller, autoMaxPrice, isOperator } = call
  const last = await lastAttempt(call, deps)
  const isAnswer = last !== undefined && answers(last, call, deps)
  if (isAnswer) {
    const taken = await takeUp(last.order, last.attempt, call, deps)
    if (taken !== undefined) return taken
  }
  const { models: names, maxPrice: asked } = request
  const found = candidates({ names, asked, autoMaxPrice, isOperator, maySpend: permits(caller.scope, 'spend') }, deps)
  const before = attemptBefore(last && { ...last, end: endOf(last.order, isAnswer) }, call.keys)
  let failure: unknown
  for (const [index, candidate] of found.slice(0, ATTEMPTS_MAX).entries()) {
    try {
      return await attempt(candidate, call, { key: before.key, attempt: before.attempt + index + 1 }, deps)
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
  { key, attempt: number }: KeyedAttempt,
  deps: ServeDeps,
): Promise<Served> {
  const { request, following, signal } = call
  const caller = listing.local && call.isOperator ? OPERATOR : call.caller
  const isFree = listing.local || listing.price === 0n
  const idempotencyKey = `${key}.${number}`
  let isSigning = false
  let isShown = false
  following.onAttempt(listing.id, number, undefined)
  const onSigning = () => {
    isSigning = true
  }
  const onProgress = ({ type, data }: ExecutionProgress) => {
    if (type === 'status') following.onAttempt(listing.id, number, data.order_id)
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
    const named = call.keys.given?.name
    // The keys of a request follow each other, whoever pays: two processes that are at the same one must meet there.
    const wanted = { ...asked, caller, keyOf: call.caller, idempotencyKey, named }
    const result = await deps.execute({ ...wanted, signal, onSigning, onProgress })
    return { agentId: listing.id, result, attempts: number }
  } catch (error) {
    // The guard may have refused right before the signature. An order that cannot be read counts as signed.
    const order = await deps.orderOf(idempotencyKey, caller).catch(() => 'unknown' as const)
    const isSigned = isSigning && !listing.local && (order === 'unknown' || (order !== undefined && isBound(order)))
    const orderId = order === 'unknown' ? undefined : order?.id
    const hint = hintOf(error, { isOperator: call.isOperator, isDefaultLimit: request.maxPrice !== maxPrice })
    throw new CallFailed(error, { agentId: listing.id, attempts: number, isSigned, isShown, orderId, hint })
  }
}

function mayAskNext({ cause, made }: CallFailed, signal: AbortSignal): boolean {
  if (made.isSigned || made.isShown || signal.aborted) return false
  return cause instanceof CodedError && nextAgentCodes.has(cause.code)
}

type StoredAttempt = KeyedAttempt & { order: OrderRecord; madeMsAgo: number }

/**
 * Finds the last order of this request in the ledger. It may have been made before a restart or by another process. So a
 * request pays once even if its client does not say that it sends the request again.
 */
async function lastAttempt(
  { keys, caller, isOperator }: RoutedCall,
  deps: ServeDeps,
): Promise<StoredAttempt | undefined> {
  const found = await deps.lastOrder(keys.prefix, { tokenId: caller.tokenId, isOperator })
  if (found === undefined) return undefined
  const at = found.key.lastIndexOf('.')
  const key = found.key.slice(0, at)
  if (keys.given !== undefined && key !== keys.given.key) throw usedByAnother()
  return { key, attempt: Number(found.key.slice(at + 1)), order: found.order, madeMsAgo: found.madeMsAgo }
}

/**
 * True if an order answers the request: while the order runs, and for some time after its end. The time is longer if its
 * client may not have got the result, and so tries again. An ended order that cost nothing does not answer: the call may run
 * again.
 */
function answers({ order, madeMsAgo }: StoredAttempt, { keys, now }: RoutedCall, { isGiven }: ServeDeps): boolean {
  if (order.status === 'pending' || order.status === 'executing') return true
  if (!isOver(order)) return false
  const isDelivered = !isFailed(order) && isGiven(order.id)
  const answersMs = isDelivered ? keys.answersMs : Math.max(keys.answersMs, JOIN_FAILED_MS)
  // An order ends after it was made. A clock that is set forward makes none of them older than that.
  return Math.min(madeMsAgo, now - Date.parse(order.updated_at)) < answersMs
}

/**
 * Waits for an order that runs, or answers from the ledger. Nothing is bought again.
 *
 * @returns undefined if the order bought nothing, because all its clients at another process have left
 * @throws CallFailed
 */
async function takeUp(
  order: OrderRecord,
  attempts: number,
  call: RoutedCall,
  deps: ServeDeps,
): Promise<Served | undefined> {
  const { id: orderId, agent_id: agentId } = order
  call.following.onTaken()
  call.following.onAttempt(agentId, attempts, orderId)
  call.following.onBound()
  const made = { agentId, attempts, isSigned: isBound(order), orderId }
  const taken = await outcomeOf(made, call.signal, deps)
  if (taken === undefined && call.signal.aborted) throw givenUp(made)
  return taken
}

type MadeOrder = Made & { orderId: string }
type OutcomeDeps = Pick<ServeDeps, 'again'>

/** The outcome of an order that was made before. Undefined: it was given up before anything was signed. @throws CallFailed */
async function outcomeOf(made: MadeOrder, signal: AbortSignal, deps: OutcomeDeps): Promise<Served | undefined> {
  const { agentId, attempts, orderId } = made
  try {
    const result = await deps.again(orderId, { signal })
    return result === 'given up' ? undefined : { agentId, attempts, result }
  } catch (error) {
    throw new CallFailed(error, made)
  }
}

function givenUp(made: Made): CallFailed {
  const message = 'the client left before the payment was signed; nothing was paid'
  return new CallFailed(new CodedError('ORDER_CANCELLED', message), made)
}

/** Answers the same request from the order of a call that has ended. A call that cost nothing may run again. */
export function answeringAgain(deps: OutcomeDeps) {
  const from = (made: Made) => {
    const { orderId } = made
    if (orderId === undefined) return undefined
    return async (signal: AbortSignal) => {
      const served = await outcomeOf({ ...made, orderId }, signal, deps)
      if (served === undefined) throw givenUp(made)
      return served
    }
  }
  return {
    afterResult: ({ agentId, attempts, result: { order_id: orderId, payment } }: Served) =>
      from({ agentId, attempts, isSigned: payment !== null, orderId }),
    afterFailure: (error: unknown) =>
      error instanceof CallFailed && error.made.isSigned ? from(error.made) : undefined,
  }
}

/** The error that a client gets. Undefined: a fault of the node. */
export function answerTo(error: unknown) {
  if (!(error instanceof CallFailed)) return doorErrorOf(error, { isSigned: false, orderId: undefined })
  return doorErrorOf(error.cause, error.made)
}
