import { resultFields, webPurchase } from '../ledger/order-record.ts'
import { boughtSettlement, factsOf, noteOf, paymentView } from '../ledger/payment-view.ts'
import { sessionId } from '../ledger/session-id.ts'
import type { Changes } from '../lib/changes.ts'
import { CodedError } from '../lib/errors.ts'
import { MarketError, NodeStopping, resultPending } from '../listings/market-error.ts'
import { PeerError } from '../protocols/peer-error.ts'
import { SellerSilent } from '../protocols/x402/first-answer.ts'
import { TaskTooLong } from '../protocols/x402/wrapped-body.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { localCaller } from '../schema/caller.ts'
import type { ExecutionPayment } from '../schema/execution-payment.ts'
import { EXECUTION_SECONDS_MAX } from '../schema/limits.ts'
import type { Listing } from '../schema/listing.ts'
import type { OwnCall } from '../selling/own-runs.ts'
import type { Order, OrderError, StoredEnd, StoredReservation } from '../store/purchases.ts'
import { isLedgerAway, StoreError, withoutPlace } from '../store/store-error.ts'
import { furtherTerms } from './channels/channel-only.ts'
import { Deadline } from './deadline.ts'
import type { Attendance, Watch } from './flights.ts'
import { callFreeAgent, type FreeCallDeps, unpaid } from './free-call.ts'
import { isInDoubt } from './outcome.ts'
import { type PurchaseDeps, purchase, type RunnableOrder } from './purchase.ts'
import type { PurchaseResult } from './received.ts'
import type { Recovery } from './recovery.ts'
import type { Tokens } from './tokens.ts'
import type { WebSold } from './web/asked.ts'
import { buyOnWeb } from './web/buy-on-web.ts'
import { UnclearAnswer } from './web/unclear-answer.ts'

export const EXECUTION_MS_MAX = EXECUTION_SECONDS_MAX * 1000

/** Orders that this process works on, each with its cancel function. The recovery skips them. */
export type ActiveOrders = Map<string, (reason: Error) => void>

export type RunOrderDeps = PurchaseDeps &
  FreeCallDeps & {
    /** Runs an agent of this node, unpaid (D17). */
    runOwn(agentId: string, call: OwnCall): Promise<string>
    tokens: Pick<Tokens, 'findValid'>
    active: ActiveOrders
    /** Reports each order that has ended or that this process has stopped working on. */
    changes: Changes
    recovery: Pick<Recovery, 'soon' | 'confirm'>
  }

type OrderCall = {
  /** Stops the order at any time, also at its seller. */
  signal: AbortSignal | undefined
  /** The waiting callers. When all have left before the signature, the order is canceled. */
  attendance?: Attendance
  watch?: Watch | undefined
  /** Length of the chain of agents that buy for one another, including this call. */
  hops?: number | undefined
  /** The run of an own agent, if another order may continue it. Default: the order's own id. */
  runId?: string | undefined
  /** True if the caller wants the transaction with the result. Default: the option of this node (D46). */
  awaitsSettlement?: boolean | undefined
}

/**
 * Runs an order to its end and stores the outcome.
 *
 * A signed order in doubt stays executing, and the recovery resolves it. An order interrupted by a stopping node also
 * stays executing.
 *
 * @throws MarketError; PeerError if the seller answers with an error; AgentError from an own agent
 */
export async function runOrder(
  order: RunnableOrder,
  listing: Listing | WebSold,
  call: OrderCall,
  deps: RunOrderDeps,
): Promise<ExecutionResult> {
  const { signal, attendance, watch } = call
  using deadline = new Deadline(signal, EXECUTION_MS_MAX)
  deps.active.set(order.id, (reason) => deadline.abort(reason))
  attendance?.onLeft((reason) => deadline.abort(reason as Error))
  const onSigning = () => attendance?.onSigning()
  watch?.status('ordered')
  /** The payment as this order leaves it to the recovery. Undefined: nothing was signed. */
  let payment: 'open' | 'named' | undefined
  try {
    const bought = await perform(order, listing, { ...call, onSigning, signal: deadline.signal }, deps)
    const { output, outputBytes, notes } = bought
    const ended = { output, outputBytes, notes, updatedAt: deps.clock.now(), ...(bought.web && { web: bought.web }) }
    const completed = { ...order, status: 'completed' as const, ...ended }
    const end = await deps.purchases.finish(completed, bought.paid).then(
      (payment) => ({ isStored: true, payment }),
      async (cause: unknown) => {
        // The caller has the result. If the store could not save it, it is saved later: see unstored-ends.ts.
        deps.logger.error(
          { ...idsOf(order), err: cause },
          'the result of a purchase could not be stored; the node tries again',
        )
        return { isStored: bought.reservation !== undefined || (await isStoredBefore(order, deps)), payment: undefined }
      },
    )
    deps.logger.debug({ ...idsOf(order), payment_id: bought.reservation?.paymentId }, 'an order is completed')
    const isOnChannel = bought.paid?.onChannel !== undefined
    if (bought.reservation !== undefined && !isOnChannel) payment = bought.txHash === undefined ? 'open' : 'named'
    const made = end.payment ?? (end.isStored ? await signedOrUnknown(order, deps) : undefined)
    return resultOf(completed, listing, bought, { ...end, made: made === UNKNOWN ? undefined : made })
  } catch (error) {
    const signed = await signedOrUnknown(order, deps)
    if (signed !== undefined) payment = 'open'
    throw await failed(order, { error, signed }, deps, deadline)
  } finally {
    deps.active.delete(order.id)
    deps.changes.tell(order.id)
    if (payment !== undefined) deps.recovery.soon(payment)
  }
}

/** True if the order was placed before it ran. False also while the ledger cannot be read. */
async function isStoredBefore({ id }: Order, { purchases }: RunOrderDeps): Promise<boolean> {
  try {
    return (await purchases.order(id)) !== undefined
  } catch {
    return false
  }
}

/** The ledger cannot be read, so the order may be signed for. */
const UNKNOWN = Symbol('unknown')

/** The signed payment of an order. An unreadable ledger must change neither a result nor an error. */
async function signedOrUnknown(
  { id }: Order,
  { purchases }: RunOrderDeps,
): Promise<StoredReservation | typeof UNKNOWN | undefined> {
  try {
    return await purchases.reservationOf(id)
  } catch {
    return UNKNOWN
  }
}

type BegunCall = OrderCall & { signal: AbortSignal; onSigning(): void }

async function perform(
  order: RunnableOrder,
  listing: Listing | WebSold,
  { signal, watch, hops, runId = order.id, onSigning, awaitsSettlement }: BegunCall,
  deps: RunOrderDeps,
): Promise<PurchaseResult> {
  // It was canceled before it could begin.
  signal.throwIfAborted()
  if ('live' in listing) return buyOnWeb(order, { seller: listing.live, watch, onSigning, hops }, deps, signal)
  const { task: input, correlationId } = order
  const callerId = localCaller(order.tokenId)
  const call: OwnCall = { input, correlationId, callerId, signal, ...(watch && { onOutput: watch.output }) }
  if (listing.local || listing.price === 0n) watch?.status('running')
  if (listing.local) {
    await refuseUnpaid(order, listing, deps)
    const origin = { id: runId, isPaid: false, hops: hops ?? 0 }
    return unpaid(await deps.runOwn(listing.id, { ...call, origin, onCommitted: onSigning }))
  }
  const resource = listing.imported?.agent_id ?? listing.id
  const seller = { peerId: listing.seller_id, addrs: listing.addrs }
  if (listing.price === 0n) {
    const { protocols, timeout_seconds: timeoutSeconds } = listing
    return callFreeAgent({ seller, resource, protocols, timeoutSeconds, isShown: watch !== undefined }, call, deps)
  }
  deps.trading?.check()
  const listed = { amount: listing.price, network: listing.network, asset: listing.asset, payTo: listing.pay_to }
  const terms = { agentId: listing.id, resource, seller, listed, hops, ...furtherTerms(listing) }
  return purchase(order, { terms, watch, onSigning, awaitsSettlement }, deps, signal)
}

/** Refuses a token that would run a paid own agent unpaid, as only the owner may (D48). @throws MarketError */
async function refuseUnpaid({ tokenId }: Order, { price }: Listing, { tokens }: RunOrderDeps): Promise<void> {
  if (price === 0n || tokenId === undefined || (await tokens.findValid(tokenId))?.scope === 'admin') return
  const how = 'ask the operator, or pay for it over A2A or from a node of your own'
  throw new MarketError(
    'SCOPE_TOO_LOW',
    `to run a paid agent of this node unpaid needs a token of the scope admin: ${how}`,
  )
}

/** Builds the answer to the caller of a completed order. */
export function resultOf(
  order: Order & { correlationId: string },
  listing: Pick<Listing, 'id' | 'seller_id'>,
  bought: PurchaseResult,
  { isStored, made }: { isStored: boolean; made: StoredEnd | undefined },
): ExecutionResult {
  return {
    correlation_id: order.correlationId,
    agent_id: listing.id,
    seller_id: listing.seller_id,
    ...resultFields(bought),
    ...(order.web && { web: webPurchase(order.web) }),
    session_id: sessionId(listing.id, localCaller(order.tokenId)),
    duration_ms: order.updatedAt - (order.startedAt ?? order.createdAt),
    ...(isStored && { order_id: order.id }),
    payment: paymentOf(bought, made),
  }
}

export function paymentOf(
  { reservation, txHash }: Pick<PurchaseResult, 'reservation' | 'txHash'>,
  made: StoredEnd | undefined,
): ExecutionPayment | null {
  if (reservation === undefined) return null
  return {
    ...paymentView(factsOf(reservation, txHash)),
    settlement: boughtSettlement({ txHash, confirmation: made?.confirmation ?? 'awaited' }),
    ...(made && noteOf(made)),
  }
}

/** Records how an order failed, unless its outcome is in doubt. Returns the error for the caller. */
async function failed(
  order: RunnableOrder,
  { error, signed }: { error: unknown; signed: StoredReservation | typeof UNKNOWN | undefined },
  deps: RunOrderDeps,
  deadline: Deadline,
): Promise<unknown> {
  const isSigned = signed !== undefined
  const { aborted, reason } = deadline.signal
  const inDoubt = isInDoubt(error, { isSigned, isAborted: aborted })
  const told = tell(error, order, inDoubt, deadline)
  const settlesFirst = signed !== UNKNOWN && signed?.settlesFirst === true
  if (settlesFirst && told instanceof PeerError && told.code === 'EXECUTION_FAILED') {
    told.message += `; this seller settles first: stoa order show ${order.id} tells whether the chain shows a charge`
  }
  deps.logger.debug({ ...idsOf(order), err: error, status: inDoubt ? 'in doubt' : 'failed' }, 'an order failed')
  // A signed order in doubt stays open: the recovery asks the seller until the outcome is known. An order that was not
  // signed when the node stopped is taken up at the next start.
  if (inDoubt || (reason instanceof NodeStopping && !isSigned)) return told
  const record: Order = { ...order, status: 'failed', error: orderError(told), updatedAt: deps.clock.now() }
  await deps.purchases.finish(record).catch((cause: unknown) => {
    deps.logger.error({ ...idsOf(order), err: cause }, 'a failed order could not be stored; the node tries again')
  })
  await releaseCall(signed, deps)
  return told
}

/** A call on a channel that has failed was not charged. If this is not stored, the recovery asks the seller once more. */
async function releaseCall(signed: StoredReservation | typeof UNKNOWN | undefined, { purchases, clock }: RunOrderDeps) {
  if (signed === undefined || signed === UNKNOWN || signed.channel === undefined) return
  await purchases.resolve(signed, 'released', undefined, clock.now()).catch(() => {})
}

/** Log fields of an order. They match the fields of the seller's log lines. */
function idsOf({ id, correlationId, agentId }: RunnableOrder) {
  return { order_id: id, correlation_id: correlationId, agent_id: agentId }
}

function tell(error: unknown, order: RunnableOrder, inDoubt: boolean, deadline: Deadline): unknown {
  const options = { cause: error, correlationId: order.correlationId, orderId: order.id }
  if (error instanceof PeerError) {
    error.correlationId = order.correlationId
    error.orderId = order.id
    return error
  }
  if (isCoded(error, 'StoreError')) return error
  if (inDoubt)
    return resultPending(order, { cause: error, why: error instanceof UnclearAnswer ? error.message : undefined })
  if (error instanceof TaskTooLong)
    return new MarketError('INPUT_TOO_LARGE', `${error.message}; nothing was paid`, options)
  if (deadline.passed || error instanceof SellerSilent)
    return new MarketError('DEADLINE', 'the seller did not answer in time; nothing was paid', options)
  if (deadline.signal.aborted) {
    const { reason } = deadline.signal
    if (reason instanceof CodedError) return reason
    return new MarketError(
      'ORDER_CANCELLED',
      'the caller left before the payment was signed; nothing was paid',
      options,
    )
  }
  if (error instanceof MarketError || isCoded(error, 'AgentError')) return error
  const reason = error instanceof Error ? error.message : 'no answer'
  return new MarketError('SELLER_UNREACHABLE', `the seller cannot be reached: ${reason}; nothing was paid`, options)
}

function isCoded(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name
}

/** The part of a failure that is stored. */
export function orderError(told: unknown): OrderError {
  const code = (told as { code?: unknown }).code
  // Nothing was signed: a failure of the ledger after the signature leaves the order in doubt.
  const retryable = (told as { retryable?: unknown }).retryable === true || isLedgerAway(told)
  // Its token may read the order, but not where the ledger is.
  const message = told instanceof StoreError ? withoutPlace(told.code) : told instanceof Error ? told.message : 'failed'
  return { code: typeof code === 'string' ? code : 'SELLER_FAILED', message, retryable }
}
