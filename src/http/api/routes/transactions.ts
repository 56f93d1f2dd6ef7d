import { ownerSeen } from '../../../schema/caller.ts'
import {
  MinedTransaction,
  type TransactionCalls,
  TransactionParams,
  WaitingTransactions,
} from '../../../schema/transaction.ts'
import { type Operation, operation } from '../operation.ts'
import { TRANSACTION_ERRORS } from './transaction-errors.ts'

const errors = ['TRANSACTION_UNKNOWN', ...TRANSACTION_ERRORS] as const
const row = { tags: ['wallet'], access: 'private' } as const
const change = {
  ...row,
  scope: 'admin',
  method: 'POST',
  params: TransactionParams,
  response: MinedTransaction,
} as const

export function transactionRoutes(transactions: TransactionCalls): Operation[] {
  return [
    operation({
      ...row,
      id: 'listTransactions',
      method: 'GET',
      path: '/transactions',
      scope: 'read',
      summary: 'Transactions of the node that are not mined yet',
      description:
        'Registrations and ratings on the chain, refunds, and transfers out of the wallet. Payments settle through ' +
        'the facilitator and are not included. A token of `execute` or `spend` sees none.',
      response: WaitingTransactions,
      errors: ['CHAIN_UNAVAILABLE'],
      handler: ({ caller }) => (ownerSeen(caller) === undefined ? transactions.open() : []),
    }),
    operation({
      ...change,
      id: 'replaceTransaction',
      path: '/transactions/{hash}/replace',
      summary: 'Send a transaction again with higher fees',
      description:
        'Uses the same account nonce, so only one of the two is mined. Also uses up the unused nonces before this nonce.',
      errors,
      handler: ({ params, signal }) => transactions.replace(params.hash, signal),
    }),
    operation({
      ...change,
      id: 'abandonTransaction',
      path: '/transactions/{hash}/abandon',
      summary: 'Give a transaction up',
      description: 'An empty transaction takes its place and costs its own gas.',
      errors,
      handler: ({ params, signal }) => transactions.abandon(params.hash, signal),
    }),
  ]
}
