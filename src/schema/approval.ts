import * as z from 'zod'

export const approvalStatuses = ['pending', 'approved', 'denied', 'expired'] as const
const ApprovalStatus = z.enum(approvalStatuses).meta({
  description: '`pending` waits for the operator; `expired`: nobody decided in time, or its order ended otherwise',
})
export type ApprovalStatus = z.infer<typeof ApprovalStatus>

export const ApprovalParams = z.strictObject({
  id: z.string().min(1).max(100).meta({ description: 'identifier of an approval' }),
})
export const ApprovalQuery = z.strictObject({ status: ApprovalStatus.optional() })

/** A purchase that waits for the operator's word. */
export const ApprovalRecord = z
  .object({
    id: z.string(),
    order_id: z.string().meta({ description: 'executes in the background once it is approved' }),
    agent_id: z.string(),
    agent_name: z.string().meta({ description: 'written by the seller' }),
    seller_id: z.string(),
    amount: z.string().meta({ description: 'USDC as decimal text' }),
    amount_atomic: z.string(),
    reason: z.string(),
    status: ApprovalStatus,
    created_at: z.string(),
    expires_at: z.string(),
  })
  .meta({ id: 'Approval', description: 'A purchase that waits for the operator, or waited.' })
export type ApprovalRecord = z.infer<typeof ApprovalRecord>
export const ApprovalRecords = z.array(ApprovalRecord)
