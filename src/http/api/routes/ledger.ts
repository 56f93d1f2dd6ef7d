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
import { soughtOf } from '../../../schema/page.ts'
import { PaymentRecord } from '../../../schema/payment-record.ts'
import { type Operation, operation, paged } from '../operation.ts'
import { TRANSACTION_ERRORS } from './transaction-errors.ts'

const row = { tags: ['ledger'], access: 'private', scope: 'read', method: 'GET', status: 200 } as const
const change = { ...row, scope: 'admin', method: 'POST', repeatable: true, params: PaymentParams } as const
const ExecutionParams = z.strictObject({ id: z.string().regex(/^[1-9][0-9]{0,14}$/, 'is no id of an execution') })

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
    errors: [],
    handler: ({ query, caller }) => paged(ledger.payments(query, caller)),
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
    summary: 'Try again to settle a payment, or look what became of it',
    description:
      'One that is owed is looked at now. One that was given up is tried once more while its authorization is valid. One ' +
      'that this node has signed and got nothing for is asked after, at its seller and on chain, however old it is.',
    response: PaymentRecord,
    errors: ['UNKNOWN_PAYMENT', 'PAYMENT_FINAL', 'NETWORK_MISMATCH', 'STORE_WRITE_FAILED'],
    handler: ({ params }) => ledger.retry(params.id),
  })

const refundPayment = (ledger: LedgerApi) =>
  operation({
    ...change,
    id: 'refundPayment',
    path: '/payments/{id}/refund',
    summary: 'Pay back what this node was paid',
    description:
      'An own transaction, which costs gas: the wallet needs a little ETH. Answers once it is mined. A payment is paid back once, ' +
      'however often this is asked for, and nothing runs for it afterwards. What the chain can still take back is not paid back: ' +
      'until a minute after the window of the authorization, 409 `SETTLEMENT_NOT_FINAL` says when. It needs a token on loopback too.',
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
    description: 'For a token of `execute` or `spend`: what it has paid, and had agents of this node do.',
    query: StatsQuery,
    response: Stats,
    errors: [],
    handler: ({ query, caller }) => earnings.stats({ ...query, owner: ownerSeen(caller) }),
  })

const listExecutions = (ledger: LedgerApi) =>
  operation({
    ...row,
    id: 'listExecutions',
    path: '/executions',
    summary: "What this node's agents did for callers, newest first",
    description:
      'Kept for 30 days. A page ends early when its texts are long; one of a search (`q`, `failed`, `since`, `until`), or for a ' +
      'token of `execute` or `spend`, may be empty and yet lead to a next one.',
    query: ExecutionQuery,
    response: ExecutionRecords,
    errors: [],
    handler: ({ query, caller }) => {
      const { agent_id: agentId, failed, limit, cursor } = query
      return paged(ledger.executions({ agentId, failed, limit, cursor, ...soughtOf(query) }, caller))
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
