import { createHash, randomUUID } from 'node:crypto'
import { type AgentPurchase, type AgentPurchases, HOPS_MAX } from '../agents/agent-purchase.ts'
import { type AgentCall, AgentError, type AgentErrorCode, type RunOrigin } from '../agents/runtime.ts'
import type { Changes } from '../lib/changes.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { Lanes } from '../lib/lane.ts'
import type { Catalog } from '../listings/catalog.ts'
import { MarketError } from '../listings/market-error.ts'
import { peerNamed } from '../p2p/did.ts'
import type { ExecutionResult } from '../schema/api.ts'
import { OPERATOR, ownerOfCaller } from '../schema/caller.ts'
import type { OnProgress } from '../schema/execution.ts'
import { RUN_CANCELED } from '../schema/limits.ts'
import type { Listing } from '../schema/listing.ts'
import type { Hex } from '../schema/primitives.ts'
import type { Order, Purchases } from '../store/purchases.ts'
import type { ExecuteRequest } from './execute.ts'
import type { Waiting } from './execute-again.ts'
import { EXECUTION_MS_MAX } from './run-order.ts'

/** Orders without a result that runs of one agent may have within 24 h: under way, in doubt, or charged (T6). */
const FRUITLESS_MAX = 32
/** Purchases of one agent within 24 h for runs that are not paid yet. Beyond it its buyers settle first (T6). */
const UNEARNED_MAX = 8
const DAY_MS = 24 * 60 * 60 * 1000

type RunWaiting = Waiting & { onSigning?: (() => void) | undefined }

type AgentPurchasesDeps = {
  clock: Clock
  catalog: Pick<Catalog, 'resolve'>
  purchases: Pick<Purchases, 'order' | 'orderOfRun' | 'fruitlessFor' | 'unearnedFor' | 'reservationOf'>
  changes: Changes
  ownId(name: string): string
  execute(request: ExecuteRequest): Promise<ExecutionResult>
  /** Waits for an order that was placed before, or answers from the ledger. */
  again(orderId: string, waiting: RunWaiting): Promise<ExecutionResult | 'given up'>
  /** Asks the seller and the chain what became of a signed order. */
  look(orderId: string): Promise<void>
  cancel(orderId: string): Promise<unknown>
}

/**
 * Buys what the agents of this node need for their own work, with the guard, ledger and recovery of every purchase.
 *
 * A run buys once (D38). Its order is found by the run's id, even if the run starts again. A run places another order
 * only after its earlier order can never be charged (D33).
 */
export function createAgentPurchases(deps: AgentPurchasesDeps): AgentPurchases {
  const { purchases } = deps
  /** Each run makes one purchase at a time. */
  const runs = new Lanes()

  /** @throws AgentError */
  function inTurn<T>(run: string, work: () => Promise<T>): Promise<T> {
    return runs.run(run, work).catch((error: unknown) => Promise.reject(explained(error)))
  }

  /** Returns what the run bought before. Waits if that purchase is under way. */
  async function bought(run: string, { isPaid }: RunOrigin, waiting: RunWaiting): Promise<ExecutionResult | undefined> {
    const before = await purchases.orderOfRun(run)
    if (before === undefined) return undefined
    // A payment names one run forever. A key or another id from the caller names a run for one day (D38).
    if (!isPaid && before.createdAt < deps.clock.now() - DAY_MS) return undefined
    if (await isUncharged(before)) return undefined
    const result = await deps.again(before.id, waiting).catch((error: unknown) => approved(error, waiting))
    return result === 'given up' ? undefined : result
  }

  return {
    async resume(name, call) {
      const { origin } = call
      if (origin === undefined) return undefined
      const run = runOf(name, call, origin.id)
      return (await inTurn(run, () => bought(run, origin, waitingOf(call))))?.output
    },
    async buy(purchase) {
      const { name, call, maxPrice } = purchase
      const { callerId, input, origin = { id: randomUUID(), isPaid: false, hops: 0 } } = call
      const listing = listingOf(purchase, deps)
      refuseLoop(listing, callerId, origin.hops)
      const run = runOf(name, call, origin.id)
      const agentId = deps.ownId(name)
      // A run that its caller pays for buys as the operator. An unpaid run buys with its caller's token.
      const tokenId = origin.isPaid ? undefined : ownerOfCaller(callerId)
      const request: ExecuteRequest = {
        ...waitingOf(call),
        agentId: listing.id,
        input,
        maxPriceAtomic: maxPrice,
        caller: tokenId === undefined ? OPERATOR : { scope: 'spend', tokenId },
        boughtFor: { agentId, agentName: name, run, ...(origin.isPaid && { paymentId: origin.id as Hex }) },
        hops: origin.hops + 1,
      }
      const result = await inTurn(run, async () => {
        const before = await bought(run, origin, request)
        if (before !== undefined) return before
        await refuseFruitless(agentId)
        if (call.signal.aborted) throw new AgentError('AGENT_CANCELLED', RUN_CANCELED)
        return deps.execute(request).catch((error: unknown) => approved(error, request))
      })
      return result.output
    },
    // A buyer may take back its payment when its run is done, or ask for what fails after the purchase (T6).
    isAhead: async (agentId) => (await purchases.unearnedFor(agentId, deps.clock.now() - DAY_MS)) >= UNEARNED_MAX,
  }

  function runOf(name: string, { callerId, input }: AgentCall, id: string): string {
    const identity = JSON.stringify([deps.ownId(name), callerId, id, input])
    return createHash('sha256').update(identity).digest('hex')
  }

  function waitingOf({ signal, onOutput, onCommitted }: AgentCall): RunWaiting {
    const onProgress: OnProgress = (progress) => {
      if (progress.type === 'output') onOutput?.(progress.data.text)
    }
    return { signal, onSigning: onCommitted, ...(onOutput && { onProgress }) }
  }

  /** Limits the loss to a seller that returns nothing. Strangers whose runs fail are not charged (T6). */
  async function refuseFruitless(agentId: string): Promise<void> {
    const count = await purchases.fruitlessFor(agentId, deps.clock.now() - DAY_MS)
    if (count < FRUITLESS_MAX) return
    const reason = `${count} of its purchases are without a result, the limit is ${FRUITLESS_MAX}: look at them with stoa order list`
    throw refused('too many purchases of this agent are without a result', reason)
  }

  /**
   * Returns true if an earlier order of this run ended without a result and can never be charged.
   *
   * @throws AgentError if the order ended and was charged, or may still be charged (D33)
   */
  async function isUncharged({ id }: Order): Promise<boolean> {
    const isEnded = async () => /^(failed|cancelled)$/.test((await purchases.order(id))!.status)
    const isGone = async () => {
      const signed = await purchases.reservationOf(id)
      return signed === undefined || signed.state === 'released' || signed.refundTx !== undefined
    }
    if (!(await isEnded())) return false
    if (await isGone()) return true
    // By now the chain may show that the order was not charged, or the seller may have the result.
    await deps.look(id).catch(() => {})
    if (!(await isEnded())) return false
    if (await isGone()) return true
    if ((await purchases.reservationOf(id))!.state === 'spent')
      throw fruitless('the agent behind this one was paid and gave no result', id)
    throw fruitless('the agent behind this one gave no result; it is asked again once that payment has expired', id)
  }

  /** Waits for the operator's decision while the run has time. Then cancels the order. */
  async function approved(error: unknown, { signal, onProgress, onSigning }: RunWaiting): Promise<ExecutionResult> {
    if (!(error instanceof MarketError) || error.code !== 'APPROVAL_REQUIRED' || error.orderId === undefined)
      throw error
    const { orderId } = error
    const status = async () => (await purchases.order(orderId))!.status
    await deps.changes.until(orderId, async () => (await status()) !== 'pending', { limitMs: EXECUTION_MS_MAX, signal })
    if (signal.aborted) await deps.cancel(orderId).catch(() => {})
    if ((await status()) === 'executing') onSigning?.()
    const result = await deps.again(orderId, { signal, ...(onProgress && { onProgress }) })
    if (result !== 'given up') return result
    throw new MarketError('ORDER_CANCELLED', 'the run that needs this order was canceled; nothing was paid')
  }
}

/** Returns the signed listing of the agent that a card names. @throws AgentError if card and listing differ (T2) */
function listingOf({ named }: AgentPurchase, { catalog }: AgentPurchasesDeps): Listing {
  const listing = catalog.resolve(named.agentId)
  if (listing === undefined) {
    const fix = 'connect this node to the market of its seller (--bootstrap), so that the listing comes here'
    throw refused('the agent behind this one is not on the market now', `agent ${named.agentId} is not known: ${fix}`)
  }
  const differs =
    listing.seller_id !== named.peerId
      ? 'seller'
      : listing.network !== named.network
        ? 'network'
        : named.payTo !== undefined && named.payTo.toLowerCase() !== listing.pay_to.toLowerCase()
          ? 'payee'
          : undefined
  if (differs === undefined) return listing
  const reason = `its card names another ${differs} than its signed listing: nothing was signed`
  throw refused('the agent behind this one is not what its card says', reason)
}

/** Refuses an agent that would buy from itself and pay for nothing. */
function refuseLoop(listing: Listing, callerId: string, hops: number): void {
  if (listing.local) throw loop('its card names an agent of this very node')
  if (peerNamed(callerId) === listing.seller_id) throw loop('it is asked by the node that it would buy from')
  if (hops >= HOPS_MAX) throw loop(`${hops} agents buy for one another before this one, the limit is ${HOPS_MAX}`)
}

function loop(reason: string): AgentError {
  return refused('this agent would buy from itself', `${reason}: nothing was signed`)
}

function fruitless(message: string, orderId: string): AgentError {
  return new AgentError('AGENT_FAILED', message, {
    cause: new Error(`see order ${orderId}: stoa order show ${orderId}`),
  })
}

function refused(message: string, reason: string): AgentError {
  return new AgentError('AGENT_NOT_RUNNABLE', message, { cause: new Error(reason) })
}

type BuyerMessage = [AgentErrorCode, string]
const CANNOT_PAY: BuyerMessage = ['AGENT_NOT_RUNNABLE', 'this seller cannot pay the agent behind this one now']
/** What a buyer may read about a purchase that did not happen. Other codes count as failures of the other seller. */
const messages: Readonly<Record<string, BuyerMessage>> = {
  OVER_PRICE: ['AGENT_NOT_RUNNABLE', 'the agent behind this one costs more than this one pays for it: see `max_price`'],
  NETWORK_MISMATCH: ['AGENT_NOT_RUNNABLE', 'the agent behind this one is sold on another network'],
  LISTING_MISMATCH: ['AGENT_NOT_RUNNABLE', 'the agent behind this one asks for something else than its listing says'],
  OVER_BUDGET: CANNOT_PAY,
  INSUFFICIENT_FUNDS: CANNOT_PAY,
  WALLET_HAS_CODE: CANNOT_PAY,
  SELLER_NOT_ALLOWED: CANNOT_PAY,
  SETTLES_FIRST: CANNOT_PAY,
  CHANNEL_NEEDED: CANNOT_PAY,
  APPROVALS_TOO_MANY: CANNOT_PAY,
  APPROVAL_DENIED: CANNOT_PAY,
  APPROVAL_EXPIRED: CANNOT_PAY,
  TOKEN_ENDED: ['AGENT_NOT_RUNNABLE', 'the token of this call has ended, and this agent buys for its work'],
  SCOPE_TOO_LOW: ['AGENT_NOT_RUNNABLE', 'this agent buys for its work: to run it unpaid needs a token that may pay'],
  ORDER_CANCELLED: ['AGENT_CANCELLED', RUN_CANCELED],
  RESULT_PENDING: ['AGENT_FAILED', 'the agent behind this one was paid and has not answered yet'],
}

function explained(error: unknown): unknown {
  if (error instanceof AgentError || !(error instanceof CodedError)) return error
  const [code, message] = messages[error.code] ?? ['AGENT_FAILED', 'the agent behind this one gave no result']
  return new AgentError(code, message, { cause: error })
}
