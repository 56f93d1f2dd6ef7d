import { type Clock, isoTime, type UnixMs } from '../lib/clock.ts'
import type { ApprovalRecord } from '../schema/approval.ts'
import type { BudgetRecord } from '../schema/budget.ts'
import type { TokenRecord } from '../schema/token.ts'
import type { StoredApproval } from '../store/approvals.ts'
import type { Budget } from './budget.ts'
import { amountsOf } from './budget-rules.ts'

/** Characters of a task that an approval shows. The order holds the full task. */
const TASK_SHOWN_MAX = 2_000

export type ApprovalRecordDeps = {
  clock: Clock
  budget: Pick<Budget, 'view'>
  /** Returns a token, also if it is revoked or expired. */
  token(id: string): Promise<TokenRecord | undefined>
}

type Facts = { now: UnixMs; budget: BudgetRecord; tokens: ReadonlyMap<string, TokenRecord | undefined> }

/** Approvals as the API shows them. Overdue approvals count as expired, even before the sweep marks them. */
export async function approvalRecords(
  approvals: readonly StoredApproval[],
  { clock, budget, token }: ApprovalRecordDeps,
): Promise<ApprovalRecord[]> {
  const ids = [...new Set(approvals.flatMap(({ tokenId }) => (tokenId === undefined ? [] : [tokenId])))]
  const [view, tokens] = await Promise.all([
    budget.view(),
    Promise.all(ids.map(async (id) => [id, await token(id)] as const)),
  ])
  const facts: Facts = { now: clock.now(), budget: view, tokens: new Map(tokens) }
  return approvals.map((approval) => approvalRecord(approval, facts))
}

function approvalRecord(approval: StoredApproval, facts: Facts): ApprovalRecord {
  const isOverdue = approval.status === 'pending' && facts.now >= approval.expiresAt
  return {
    id: approval.id,
    order_id: approval.orderId,
    agent_id: approval.agentId,
    agent_name: approval.agentName,
    seller_id: approval.sellerId,
    ...amountsOf('amount', approval.amount),
    ...requestOf(approval, facts),
    reason: approval.reason,
    status: isOverdue ? 'expired' : approval.status,
    created_at: isoTime(approval.createdAt),
    expires_at: isoTime(approval.expiresAt),
  }
}

/** Returns the task, who requested it, and what the budget has left after it. */
function requestOf({ task = '', tokenId, workflowId, amount, status }: StoredApproval, { budget, tokens }: Facts) {
  const { left_today_atomic: day, left_month_atomic: month } = budget
  const token = tokenId === undefined ? undefined : tokens.get(tokenId)
  const inAll = token && leftOf(token.budget_atomic, token.spent_atomic)
  const today = token && leftOf(token.per_day_atomic, token.spent_today_atomic)
  const after = (...limits: (bigint | string | null | undefined)[]) => {
    const known = limits.filter((limit) => limit !== null && limit !== undefined).map(BigInt)
    const [least] = known.toSorted((a, b) => (a < b ? -1 : 1))
    if (least === undefined) return undefined
    return least > amount ? least - amount : 0n
  }
  return {
    task: task.length > TASK_SHOWN_MAX ? `${task.slice(0, TASK_SHOWN_MAX)}…` : task,
    task_length: task.length,
    requester: tokenId === undefined ? { kind: 'operator' as const } : tokenRequester(tokenId, token),
    ...(workflowId !== undefined && { workflow_id: workflowId }),
    ...(status === 'pending' && {
      budget_after: {
        ...amountsOf('left_today', after(day, today, inAll)),
        ...amountsOf('left_month', after(month, inAll)),
      },
    }),
  }
}

function tokenRequester(tokenId: string, token: TokenRecord | undefined) {
  return { kind: 'token' as const, token_id: tokenId, ...(token && { token_name: token.name }) }
}

/** A `max` of null means no limit. */
function leftOf(max: string | null, spent: string | null): bigint | undefined {
  return max === null ? undefined : BigInt(max) - BigInt(spent ?? 0)
}
