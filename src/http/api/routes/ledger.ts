import * as z from 'zod'
import type { LedgerApi } from '../../../ledger/ledger-api.ts'
import type { Earnings } from '../../../ledger/stats.ts'
import { ownerSeen } from '../../../schema/caller.ts'
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
import { SESSION_DAYS } from '../../../schema/limits.ts'
import { soughtOf } from '../../../schema/page.ts'
import { PaymentRecord } from '../../../schema/payment-record.ts'
import { type Operation, operation, paged } from '../operation.ts'
import { TRANSACTION_ERRORS } from './transaction-errors.ts'

const row = { tags: ['ledger'], access: 'private', scope: 'read', method: 'GET' } as const
const change = { ...row, scope: 'admin', method: 'POST', repeatable: true, params: PaymentParams } as const
const ExecutionParams = z.strictObject({ id: z.string().regex(/^[1-9][0-9]{0,14}$/, 'is not the id of an execution') })

export function ledgerRoutes(ledger: LedgerApi, earnings: Earnings): Operation[] {
  return [
    listPayments(ledger),
    getPayment(ledger),
    retryPayment(ledger),
    refundPayment(ledger),
    getStats(earnings),
    listExecutions(ledger),
    getExecution(ledger),
  ]
}

const listPayments = (ledger: LedgerApi) =>
  operation({
    ...row,
    id: 'listPayments',
    path: '/payments',
    summary: 'Payments received and made, newest first',
    query: PaymentQuery,
    response: PaymentRecords,
    handler: async ({ query, caller }) => paged(await ledger.payments(query, caller)),
  })

const getPayment = (ledger: LedgerApi) =>
  operation({
    ...row,
    id: 'getPayment',
    path: '/payments/{id}',
    summary: 'One payment',
    params: PaymentParams,
    response: PaymentRecord,
    errors: ['UNKNOWN_PAYMENT'],
    handler: ({ params, caller }) => ledger.payment(params.id, caller),
  })

const retryPayment = (ledger: LedgerApi) =>
  operation({
    ...change,
    id: 'retryPayment',
    path: '/payments/{id}/retry',
    summary: 'Try again to settle a payment, or check what became of it',
    description:
      'For an owed payment, the node tries at once. For a payment that was given up, it tries once more while the ' +
      'authorization is valid. For a payment that this node signed and got no result for, it asks the seller and ' +
      'the chain, whatever the age.',
    response: PaymentRecord,
    errors: ['UNKNOWN_PAYMENT', 'PAYMENT_FINAL', 'NETWORK_MISMATCH', 'STORE_WRITE_FAILED'],
    handler: ({ params }) => ledger.retry(params.id),
  })

const refundPayment = (ledger: LedgerApi) =>
  operation({
    ...change,
    id: 'refundPayment',
    path: '/payments/{id}/refund',
    summary: 'Refund a received payment',
    description:
      "A transaction of the node's own account, which costs gas: the wallet needs a little ETH. Answers when it is " +
      'mined. A payment is refunded once, however often a client asks, and no agent runs for it afterwards. A ' +
      'settlement that the chain can still take back is not refunded: until a minute after the window of the ' +
      'authorization, 409 `SETTLEMENT_NOT_FINAL` says when. It needs a token on loopback too.',
    access: 'token',
    response: PaymentRecord,
    errors: [
      'UNKNOWN_PAYMENT',
      'PAYMENT_FINAL',
      'SETTLEMENT_NOT_FINAL',
      'NETWORK_MISMATCH',
      'INSUFFICIENT_FUNDS',
      ...TRANSACTION_ERRORS,
    ],
    handler: ({ params, signal }) => ledger.refund(params.id, signal),
  })

const getStats = (earnings: Earnings) =>
  operation({
    ...row,
    id: 'getStats',
    path: '/stats',
    summary: 'What this node has earned, spent and done',
    description: 'A token of `execute` or `spend` gets the sums of its own payments and executions.',
    query: StatsQuery,
    response: Stats,
    handler: ({ query, caller }) => earnings.stats({ ...query, owner: ownerSeen(caller) }),
  })

const listExecutions = (ledger: LedgerApi) =>
  operation({
    ...row,
    id: 'listExecutions',
    path: '/executions',
    summary: "What this node's agents did for callers, newest first",
    description:
      `Kept for ${SESSION_DAYS} days. ` +
      'A page ends early if its texts are long. A page of a search (`q`, `failed`, `since`, ' +
      '`until`), or for a token of `execute` or `spend`, may be empty and still have a next one.',
    query: ExecutionQuery,
    response: ExecutionRecords,
    handler: async ({ query, caller }) => {
      const { agent_id: agentId, failed, limit, cursor } = query
      return paged(await ledger.executions({ agentId, failed, limit, cursor, ...soughtOf(query) }, caller))
    },
  })

const getExecution = (ledger: LedgerApi) =>
  operation({
    ...row,
    id: 'getExecution',
    path: '/executions/{id}',
    summary: 'One execution of an own agent',
    params: ExecutionParams,
    response: ExecutionRecord,
    errors: ['UNKNOWN_EXECUTION'],
    handler: ({ params, caller }) => ledger.execution(params.id, caller),
  })
