import type { Approvals } from '../../../buying/approvals.ts'
import type { Budget } from '../../../buying/budget.ts'
import {
  ApprovalParams,
  ApprovalQuery,
  ApprovalRecord,
  ApprovalRecords,
  DecideApprovals,
} from '../../../schema/approval.ts'
import { BudgetRecord, ChangeBudget } from '../../../schema/budget.ts'
import { type Operation, operation } from '../operation.ts'

export type BudgetPart = Pick<Budget, 'view' | 'change'>
export type ApprovalsPart = Pick<Approvals, 'list' | 'get' | 'decide' | 'decideAll'>

const budgetRow = { path: '/budget', tags: ['budget'], access: 'private', response: BudgetRecord } as const
const approvalRow = { tags: ['budget'], access: 'private', response: ApprovalRecord } as const
const decideRow = {
  ...approvalRow,
  method: 'POST',
  repeatable: true,
  // Only the operator decides, so the requester of a purchase cannot approve it.
  scope: 'admin',
  params: ApprovalParams,
  errors: ['UNKNOWN_APPROVAL', 'APPROVAL_FINAL', 'STORE_WRITE_FAILED'],
} as const

export function budgetRoutes(budget: BudgetPart, approvals: ApprovalsPart): Operation[] {
  return [
    getBudget(budget),
    changeBudget(budget),
    listApprovals(approvals),
    getApproval(approvals),
    approve(approvals),
    decideApprovals(approvals),
    deny(approvals),
  ]
}

const getBudget = (budget: BudgetPart) =>
  operation({
    ...budgetRow,
    id: 'getBudget',
    method: 'GET',
    summary: 'What this node may spend, and what is left',
    scope: 'read',
    handler: () => budget.view(),
  })

const changeBudget = (budget: BudgetPart) =>
  operation({
    ...budgetRow,
    id: 'changeBudget',
    method: 'PUT',
    summary: 'Change what this node may spend',
    description:
      'Applies at once, also to orders that wait. Fields that are left out keep their value. The change outlives ' +
      'restarts, until the flag, the variable or config.yaml changes.',
    scope: 'admin',
    body: ChangeBudget,
    example: { per_day: '10', per_month: '100', auto_approve_below: '0.50', deny: [] },
    errors: ['STORE_WRITE_FAILED'],
    handler: ({ body }) => budget.change(body),
  })

const listApprovals = (approvals: ApprovalsPart) =>
  operation({
    ...approvalRow,
    id: 'listApprovals',
    method: 'GET',
    path: '/approvals',
    summary: 'Purchases that wait for the operator, newest first',
    scope: 'read',
    query: ApprovalQuery,
    response: ApprovalRecords,
    handler: ({ query, caller }) => approvals.list(query.status, caller),
  })

const getApproval = (approvals: ApprovalsPart) =>
  operation({
    ...approvalRow,
    id: 'getApproval',
    method: 'GET',
    path: '/approvals/{id}',
    summary: 'One purchase that waits or waited for the operator',
    scope: 'read',
    params: ApprovalParams,
    errors: ['UNKNOWN_APPROVAL'],
    handler: ({ params, caller }) => approvals.get(params.id, caller),
  })

const approve = (approvals: ApprovalsPart) =>
  operation({
    ...decideRow,
    id: 'approve',
    path: '/approvals/{id}/approve',
    summary: 'Approve a purchase',
    description: 'The order then executes in the background. `GET /orders/{order_id}?wait=30` waits for its end.',
    handler: ({ params }) => approvals.decide(params.id, 'approved'),
  })

const decideApprovals = (approvals: ApprovalsPart) =>
  operation({
    ...approvalRow,
    id: 'decideApprovals',
    method: 'POST',
    repeatable: true,
    path: '/approvals/decide',
    summary: 'Approve or deny several purchases',
    description:
      'Decides each by itself. An approval that cannot be decided any more does not stop the others, and is ' +
      'answered as it is.',
    scope: 'admin',
    body: DecideApprovals,
    example: { ids: ['4ad1f0c2-…', '9b7e2a10-…'], verdict: 'approved' },
    response: ApprovalRecords,
    errors: ['UNKNOWN_APPROVAL', 'STORE_WRITE_FAILED'],
    handler: ({ body: { ids, verdict } }) => approvals.decideAll(ids, verdict),
  })

const deny = (approvals: ApprovalsPart) =>
  operation({
    ...decideRow,
    id: 'deny',
    path: '/approvals/{id}/deny',
    summary: 'Deny a purchase',
    description: 'The order fails with APPROVAL_DENIED. Nothing is paid.',
    handler: ({ params }) => approvals.decide(params.id, 'denied'),
  })
