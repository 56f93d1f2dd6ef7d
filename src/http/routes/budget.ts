import { ApprovalParams, ApprovalQuery, ApprovalRecord, ApprovalRecords } from '../../schema/approval.ts'
import { BudgetRecord, ChangeBudget } from '../../schema/budget.ts'
import { type Operation, operation } from '../operation.ts'

export type BudgetRouteDeps = {
  budget: {
    view(): BudgetRecord
    change(change: ChangeBudget): Promise<BudgetRecord>
  }
  approvals: {
    list(status: ApprovalRecord['status'] | undefined): ApprovalRecord[]
    get(id: string): ApprovalRecord
    decide(id: string, verdict: 'approved' | 'denied'): Promise<ApprovalRecord>
  }
}

const budgetRow = { path: '/budget', tags: ['budget'], access: 'private', response: BudgetRecord, status: 200 } as const
const approvalRow = { tags: ['budget'], access: 'private', response: ApprovalRecord, status: 200 } as const
const decideRow = {
  ...approvalRow,
  method: 'POST',
  // The operator's alone: whoever asks for a purchase does not decide over it.
  scope: 'admin',
  params: ApprovalParams,
  errors: ['UNKNOWN_APPROVAL', 'APPROVAL_FINAL', 'STORE_WRITE_FAILED'],
} as const

export function budgetRoutes({ budget, approvals }: BudgetRouteDeps): Operation[] {
  return [
    operation({
      ...budgetRow,
      id: 'getBudget',
      method: 'GET',
      summary: 'What this node may spend, and what is left',
      scope: 'read',
      errors: [],
      handler: () => budget.view(),
    }),
    operation({
      ...budgetRow,
      id: 'changeBudget',
      method: 'PUT',
      summary: 'Change what this node may spend',
      description:
        'From now on, for orders that wait too. What is left out stays as it is. It outlives restarts, until flag, variable ' +
        'or config.yaml say something else than they did.',
      scope: 'admin',
      body: ChangeBudget,
      example: { per_day: '10', per_month: '100', auto_approve_below: '0.50', deny: [] },
      errors: ['STORE_WRITE_FAILED'],
      handler: ({ body }) => budget.change(body),
    }),
    operation({
      ...approvalRow,
      id: 'listApprovals',
      method: 'GET',
      path: '/approvals',
      summary: 'Purchases that wait for the operator, newest first',
      scope: 'read',
      query: ApprovalQuery,
      response: ApprovalRecords,
      errors: [],
      handler: ({ query }) => approvals.list(query.status),
    }),
    operation({
      ...approvalRow,
      id: 'getApproval',
      method: 'GET',
      path: '/approvals/{id}',
      summary: 'One purchase that waits, or waited',
      scope: 'read',
      params: ApprovalParams,
      errors: ['UNKNOWN_APPROVAL'],
      handler: ({ params }) => approvals.get(params.id),
    }),
    operation({
      ...decideRow,
      id: 'approve',
      path: '/approvals/{id}/approve',
      summary: 'Approve a purchase',
      description: 'Its order executes in the background at once: `GET /orders/{order_id}?wait=30` waits for its end.',
      handler: ({ params }) => approvals.decide(params.id, 'approved'),
    }),
    operation({
      ...decideRow,
      id: 'deny',
      path: '/approvals/{id}/deny',
      summary: 'Deny a purchase',
      description: 'Its order fails with APPROVAL_DENIED; nothing is paid.',
      handler: ({ params }) => approvals.decide(params.id, 'denied'),
    }),
  ]
}
