import * as z from 'zod'
import { AlarmRecord, AlarmRecords } from '../../schema/alarm.ts'
import { ApprovalRecord, ApprovalRecords, type ApprovalStatus } from '../../schema/approval.ts'
import { BudgetRecord, ChangeBudget } from '../../schema/budget.ts'
import { CreatedToken, CreateToken, TokenRecord, TokenRecords } from '../../schema/token.ts'
import { at, type Options, type Requests } from './requests.ts'

/** Tokens, budget, alarms and approvals of a running node. The functions throw the errors of ApiClient. */
export type AccessCalls = {
  createToken(wanted: CreateToken, options?: Options): Promise<CreatedToken>
  tokens(options?: Options): Promise<TokenRecord[]>
  revokeToken(id: string, options?: Options): Promise<TokenRecord>
  budget(options?: Options): Promise<BudgetRecord>
  changeBudget(change: ChangeBudget, options?: Options): Promise<BudgetRecord>
  alarms(query?: { dismissed?: boolean }, options?: Options): Promise<AlarmRecord[]>
  dismissAlarm(id: string, mark?: string, options?: Options): Promise<AlarmRecord>
  approvals(query?: { status?: ApprovalStatus }, options?: Options): Promise<ApprovalRecord[]>
  decideApproval(id: string, verdict: 'approve' | 'deny', options?: Options): Promise<ApprovalRecord>
  /** Decides every approval that is still pending and returns all of them. */
  decideApprovals(ids: readonly string[], verdict: 'approved' | 'denied', options?: Options): Promise<ApprovalRecord[]>
}

export function accessCalls({ request, linked }: Requests): AccessCalls {
  return {
    createToken: (wanted, options) => request('/tokens', CreatedToken, options, z.encode(CreateToken, wanted)),
    tokens: (options) => request('/tokens', TokenRecords, options),
    revokeToken: (id, options) => request(at('tokens', id), TokenRecord, options, undefined, 'DELETE'),
    budget: (options) => request('/budget', BudgetRecord, options),
    changeBudget: (change, options) => request('/budget', BudgetRecord, options, z.encode(ChangeBudget, change), 'PUT'),
    alarms: ({ dismissed = false } = {}, options) =>
      request(dismissed ? '/alarms?dismissed=true' : '/alarms', AlarmRecords, options),
    dismissAlarm: (id, mark, options) =>
      request(`${at('alarms', id)}/dismiss`, AlarmRecord, options, mark === undefined ? {} : { mark }),
    approvals: async (query = {}, options) => (await linked('/approvals', query, ApprovalRecords, options)).body,
    decideApprovals: (ids, verdict, options) =>
      request('/approvals/decide', ApprovalRecords, options, { ids, verdict }),
    decideApproval: (id, verdict, options) =>
      request(`${at('approvals', id)}/${verdict}`, ApprovalRecord, options, undefined, 'POST'),
  }
}
