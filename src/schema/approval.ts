import * as z from 'zod'

export const approvalStatuses = ['pending', 'approved', 'denied', 'expired'] as const
const ApprovalStatus = z.enum(approvalStatuses).meta({
  description:
    '`pending`: waits for the operator; `expired`: nobody decided in time, or the order ended in another way',
})
export type ApprovalStatus = z.infer<typeof ApprovalStatus>

export const ApprovalParams = z.strictObject({
  id: z.string().min(1).max(100).meta({ description: 'id of the approval' }),
})
export const ApprovalQuery = z.strictObject({ status: ApprovalStatus.optional() })

/** The body of POST /approvals/decide. */
export const DecideApprovals = z
  .strictObject({
    ids: z.array(ApprovalParams.shape.id).min(1, 'has no approval ids').max(100),
    verdict: z.enum(['approved', 'denied']),
  })
  .meta({ id: 'DecideApprovals' })

export const ApprovalRecord = z
  .object({
    id: z.string(),
    order_id: z.string().meta({ description: 'order that runs in the background after the approval' }),
    agent_id: z.string(),
    agent_name: z.string().meta({ description: 'written by the seller' }),
    seller_id: z.string(),
    amount: z.string().meta({ description: 'USDC as decimal text' }),
    amount_atomic: z.string(),
    task: z.string().meta({ description: 'task for the agent; only the first 2,000 characters of a long task' }),
    task_length: z
      .int()
      .meta({ description: 'length of the whole task in UTF-16 units; `GET /orders/{order_id}` has the whole task' }),
    requester: z
      .object({
        kind: z.enum(['operator', 'token']),
        token_id: z.string().optional(),
        token_name: z.string().optional(),
      })
      .meta({ description: 'who asked for the purchase' }),
    workflow_id: z.string().optional().meta({ description: 'workflow of the purchase' }),
    budget_after: z
      .object({
        left_today: z.string().nullable(),
        left_today_atomic: z.string().nullable(),
        left_month: z.string().nullable(),
        left_month_atomic: z.string().nullable(),
      })
      .optional()
      .meta({
        description:
          'only for a pending approval: what the budget and the token would have left after this purchase; null: no limit',
      }),
    reason: z.string(),
    status: ApprovalStatus,
    created_at: z.string(),
    expires_at: z.string(),
  })
  .meta({ id: 'Approval', description: 'A purchase that waits or waited for the operator.' })
export type ApprovalRecord = z.infer<typeof ApprovalRecord>
export const ApprovalRecords = z.array(ApprovalRecord)
