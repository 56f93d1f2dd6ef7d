import type { Service } from '../lib/lifecycle.ts'
import type { Logger } from '../lib/logger.ts'
import { periodic } from '../lib/periodic.ts'
import { MarketError, maySee } from '../listings/market-error.ts'
import type { ApprovalRecord, ApprovalStatus } from '../schema/approval.ts'
import { type Caller, OPERATOR, ownerSeen } from '../schema/caller.ts'
import type { ApprovalStore, StoredApproval, Verdict } from '../store/approvals.ts'
import type { KeyedRequest } from '../store/idempotency.ts'
import type { Order } from '../store/order-row.ts'
import type { OpenLimits } from '../store/orders.ts'
import type { Purchases } from '../store/purchases.ts'
import { type ApprovalRecordDeps, approvalRecords } from './approval-record.ts'
import { type Budget, refusalOf } from './budget.ts'
import type { Offered } from './guard.ts'

/** Default of `buyer.approval_minutes`. */
export const APPROVAL_MINUTES = 60
/** Approvals that wait at the same time: in total, and per token. */
const OPEN_MAX: OpenLimits = { all: 1_000, perToken: 100 }
/** Approvals in one list answer. */
const LISTED_MAX = 1_000
const SWEEP_MS = 1_000

type ApprovalsDeps = ApprovalRecordDeps & {
  logger: Logger
  newId(): string
  store: ApprovalStore
  purchases: Pick<Purchases, 'over' | 'standingOf'>
  budget: Pick<Budget, 'approvalFor' | 'limitsFor' | 'day' | 'view'>
  published(approval: StoredApproval): void
  /** Called when the order of an approval may run, or has ended. */
  decided(orderId: string, verdict: Verdict | 'expired'): void
}

/** Purchases that wait for the operator's decision. The node asks before it signs. */
export interface Approvals extends Service {
  /**
   * Stores an order that needs an approval, together with the approval. The order stays pending and executes in the
   * background once it is approved. Returns undefined if the order needs no approval or would be refused anyway.
   *
   * @throws MarketError APPROVALS_TOO_MANY, KeyTaken
   */
  hold(order: Order, listing: Offered, request?: KeyedRequest | undefined): Promise<StoredApproval | undefined>
  /** Lists the approvals that the caller may see, newest first. */
  list(status?: ApprovalStatus, caller?: Caller): Promise<ApprovalRecord[]>
  /** @throws MarketError UNKNOWN_APPROVAL */
  get(id: string, caller?: Caller): Promise<ApprovalRecord>
  /** @throws MarketError UNKNOWN_APPROVAL, APPROVAL_FINAL */
  decide(id: string, verdict: Verdict): Promise<ApprovalRecord>
  /** Decides all that are pending, and returns all. @throws MarketError UNKNOWN_APPROVAL before any is decided */
  decideAll(ids: readonly string[], verdict: Verdict): Promise<ApprovalRecord[]>
}

export function createApprovals(approvalMinutes: number, deps: ApprovalsDeps): Approvals {
  const { clock, store, budget } = deps
  const views = (approvals: readonly StoredApproval[]) => approvalRecords(approvals, deps)
  const view = async (approval: StoredApproval) => (await views([approval]))[0]!

  /** Returns why an order needs an approval. Returns undefined for an order that a limit refuses anyway. */
  async function reasonFor(order: Order, listing: Offered): Promise<string | undefined> {
    if (listing.local || listing.price === 0n) return undefined
    const wanted = { agentId: listing.id, sellerId: listing.seller_id, amount: listing.price }
    const reason = budget.approvalFor(wanted)
    // A call without an approval does not wait for the sums of the ledger.
    const refusal = reason && (await refusalOf(order, wanted, deps))
    return refusal && refusal.code === 'APPROVAL_REQUIRED' ? reason : undefined
  }

  async function known(id: string, caller = OPERATOR): Promise<StoredApproval> {
    const approval = await store.get(id)
    if (approval !== undefined && maySee(caller, approval.tokenId)) return approval
    throw new MarketError('UNKNOWN_APPROVAL', `no approval ${id} is known here: see stoa approvals list`)
  }

  async function sweep(): Promise<void> {
    for (const approval of await store.expire(clock.now())) {
      deps.published(approval)
      deps.decided(approval.orderId, 'expired')
    }
  }

  const sweeping = periodic(
    { name: 'approvals', firstMs: 0, everyMs: SWEEP_MS },
    { work: sweep, onError: (error) => deps.logger.warn({ err: error }, 'expired approvals could not be marked') },
  )

  return {
    name: 'approvals',
    start: () => sweeping.start(),
    stop: () => sweeping.stop(),
    async hold(order, listing, request) {
      const reason = await reasonFor(order, listing)
      if (reason === undefined) return undefined
      const now = clock.now()
      const asked: StoredApproval = {
        id: deps.newId(),
        orderId: order.id,
        agentId: listing.id,
        agentName: listing.name,
        sellerId: listing.seller_id,
        amount: listing.price,
        task: order.task,
        tokenId: order.tokenId,
        workflowId: order.workflowId,
        reason,
        status: 'pending',
        createdAt: now,
        expiresAt: now + approvalMinutes * 60_000,
      }
      const waiting: Order = { ...order, status: 'pending', sellerId: listing.seller_id }
      const held = await store.ask(waiting, asked, OPEN_MAX, request)
      if (held === 'begun') return undefined
      if (held === 'full' || held === 'share') {
        const many = held === 'full' ? `${OPEN_MAX.all} approvals` : `${OPEN_MAX.perToken} approvals of this token`
        throw new MarketError('APPROVALS_TOO_MANY', `${many} are pending: decide some (stoa approvals list)`)
      }
      if (held.id === asked.id) deps.published(held)
      return held
    },
    async list(status, caller = OPERATOR) {
      const stored = await store.list({ status, ownerId: ownerSeen(caller) }, LISTED_MAX)
      return (await views(stored)).filter((one) => status === undefined || one.status === status)
    },
    get: async (id, caller) => view(await known(id, caller)),
    async decideAll(ids, verdict) {
      for (const id of ids) await known(id)
      for (const id of new Set(ids)) {
        await this.decide(id, verdict).catch((error: unknown) => {
          if (!(error instanceof MarketError) || error.code !== 'APPROVAL_FINAL') throw error
        })
      }
      return views(await Promise.all(ids.map((id) => known(id))))
    },
    async decide(id, verdict) {
      const outcome = await store.decide(id, verdict, clock.now())
      if (outcome === undefined) return view(await known(id))
      if (!outcome.decided) {
        await sweep()
        throw new MarketError('APPROVAL_FINAL', `approval ${id} is ${(await view(await known(id))).status}`)
      }
      deps.published(outcome.approval)
      deps.decided(outcome.approval.orderId, verdict)
      return view(outcome.approval)
    },
  }
}

/** The error for a caller that waits. */
export function approvalRequired({ id, orderId, reason }: StoredApproval): MarketError {
  const how = `the operator decides: stoa approvals approve ${id} (or deny)`
  const then = `order ${orderId} then executes by itself: stoa order show ${orderId} --wait, or GET /orders/${orderId}, has the result`
  return new MarketError('APPROVAL_REQUIRED', `${reason}; ${how}; ${then}`, { approvalId: id, orderId })
}
