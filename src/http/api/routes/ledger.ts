import * as z from 'zod'
import { type Caller, ownerSeen } from '../../../schema/caller.ts'
import {
  ExecutionQuery,
  ExecutionRecord,
  ExecutionRecords,
  PaymentParams,
  PaymentQuery,
  PaymentRecords,
  Stats,
  StatsQuery,
} from '../../../schema/ledger.ts'
import { type Page, soughtOf } from '../../../schema/page.ts'
import { PaymentRecord } from '../../../schema/payment-record.ts'
import { type Operation, operation, paged } from '../operation.ts'
import { TRANSACTION_ERRORS } from './transaction-errors.ts'

export type LedgerRouteDeps = {
  ledger: {
    payments(query: PaymentQuery, caller: Caller): Page<PaymentRecord>
    payment(id: string, caller: Caller): PaymentRecord
    retry(id: string): Promise<PaymentRecord>
    refund(id: string, signal: AbortSignal): Promise<PaymentRecord>
    executions(
      query: {
        agentId?: string | undefined
        failed?: boolean | undefined
        text?: string | undefined
        since?: number | undefined
        until?: number | undefined
        limit: number
        cursor?: string | undefined
      },
      caller: Caller,
    ): Page<ExecutionRecord>
    execution(id: string, caller: Caller): ExecutionRecord
  }
  stats(options: { days: number; owner?: string | undefined }): Promise<Stats>
}

const tags = ['ledger']
const access = 'private'
const ExecutionParams = z.strictObject({ id: z.string().regex(/^[1-9][0-9]{0,14}$/, 'is no id of an execution') })

export function ledgerRoutes({ ledger, stats }: LedgerRouteDeps): Operation[] {
  return [
    operation({
      id: 'listPayments',
      method: 'GET',
      path: '/payments',
      summary: 'Payments received and made, newest first',
      tags,
      access,
      scope: 'read',
      query: PaymentQuery,
      response: PaymentRecords,
      status: 200,
      errors: [],
      handler: ({ query, caller }) => paged(ledger.payments(query, caller)),
    }),
    operation({
      id: 'getPayment',
      method: 'GET',
      path: '/payments/{id}',
      summary: 'One payment',
      tags,
      access,
      scope: 'read',
      params: PaymentParams,
      response: PaymentRecord,
      status: 200,
      errors: ['UNKNOWN_PAYMENT'],
      handler: ({ params, caller }) => ledger.payment(params.id, caller),
    }),
    operation({
      id: 'retryPayment',
      method: 'POST',
      repeatable: true,
      path: '/payments/{id}/retry',
      summary: 'Try again to settle a payment, or look what became of it',
      description:
        'One that is owed is looked at now. One that was given up is tried once more while its authorization is valid. One ' +
        'that this node has signed and got nothing for is asked after, at its seller and on chain, however old it is.',
      tags,
      access,
      scope: 'admin',
      params: PaymentParams,
      response: PaymentRecord,
      status: 200,
      errors: ['UNKNOWN_PAYMENT', 'PAYMENT_FINAL', 'NETWORK_MISMATCH', 'STORE_WRITE_FAILED'],
      handler: ({ params }) => ledger.retry(params.id),
    }),
    operation({
      id: 'refundPayment',
      method: 'POST',
      repeatable: true,
      path: '/payments/{id}/refund',
      summary: 'Pay back what this node was paid',
      description:
        'An own transaction, which costs gas: the wallet needs a little ETH. Answers once it is mined. A payment is paid back once, ' +
        'however often this is asked for, and nothing runs for it afterwards. What the chain can still take back is not paid back: ' +
        'until a minute after the window of the authorization, 409 `SETTLEMENT_NOT_FINAL` says when. It needs a token on loopback too.',
      tags,
      access: 'token',
      scope: 'admin',
      params: PaymentParams,
      response: PaymentRecord,
      status: 200,
      errors: [
        'UNKNOWN_PAYMENT',
        'PAYMENT_FINAL',
        'SETTLEMENT_NOT_FINAL',
        'NETWORK_MISMATCH',
        'INSUFFICIENT_FUNDS',
        ...TRANSACTION_ERRORS,
      ],
      handler: ({ params, signal }) => ledger.refund(params.id, signal),
    }),
    operation({
      id: 'getStats',
      method: 'GET',
      path: '/stats',
      summary: 'What this node has earned, spent and done',
      description: 'For a token of `execute` or `spend`: what it has paid, and had agents of this node do.',
      tags,
      access,
      scope: 'read',
      query: StatsQuery,
      response: Stats,
      status: 200,
      errors: [],
      handler: ({ query, caller }) => stats({ ...query, owner: ownerSeen(caller) }),
    }),
    operation({
      id: 'listExecutions',
      method: 'GET',
      path: '/executions',
      summary: "What this node's agents did for callers, newest first",
      description:
        'Kept for 30 days. A page ends early when its texts are long; one of a search (`q`, `failed`, `since`, `until`), or for a ' +
        'token of `execute` or `spend`, may be empty and yet lead to a next one.',
      tags,
      access,
      scope: 'read',
      query: ExecutionQuery,
      response: ExecutionRecords,
      status: 200,
      errors: [],
      handler: ({ query, caller }) => {
        const { agent_id: agentId, failed, limit, cursor } = query
        return paged(ledger.executions({ agentId, failed, limit, cursor, ...soughtOf(query) }, caller))
      },
    }),
    operation({
      id: 'getExecution',
      method: 'GET',
      path: '/executions/{id}',
      summary: 'One execution of an own agent',
      tags,
      access,
      scope: 'read',
      params: ExecutionParams,
      response: ExecutionRecord,
      status: 200,
      errors: ['UNKNOWN_EXECUTION'],
      handler: ({ params, caller }) => ledger.execution(params.id, caller),
    }),
  ]
}
