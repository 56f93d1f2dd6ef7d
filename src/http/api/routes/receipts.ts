import { type Receipts, receiptsCsv } from '../../../ledger/receipts.ts'
import { SignedX402Receipt } from '../../../schema/receipt.ts'
import {
  ReceiptExportQuery,
  ReceiptParams,
  ReceiptQuery,
  ReceiptRecord,
  ReceiptRecords,
} from '../../../schema/receipt-record.ts'
import { HttpError } from '../../server/problem.ts'
import { type Operation, operation, paged, Reply } from '../operation.ts'

const shared = { method: 'GET', tags: ['receipts'], access: 'private', scope: 'read' } as const

export function receiptRoutes(receipts: Receipts): Operation[] {
  return [
    operation({
      ...shared,
      id: 'listReceipts',
      path: '/receipts',
      summary: 'Receipts of paid calls, newest first',
      description:
        'Receipts that this node gave (`in`) and received (`out`). The account that is paid signs each over ' +
        'payment, task and result. A purchase without a receipt, or with a wrong one, is listed with a note.',
      query: ReceiptQuery,
      response: ReceiptRecords,
      handler: async ({ query: { agent_id, ...query }, caller }) =>
        paged(await receipts.list({ ...query, agentId: agent_id }, caller)),
    }),
    operation({
      ...shared,
      id: 'exportReceipts',
      path: '/receipts/export',
      summary: 'Receipts as a file',
      description:
        'With `format=csv` a table for a spreadsheet. If there are more, the Link header names the next page.',
      query: ReceiptExportQuery,
      response: ReceiptRecords,
      otherMedia: 'text/csv',
      async handler({ query: { format, agent_id, direction, cursor }, caller }) {
        const { items, next } = await receipts.export({ direction, cursor, agentId: agent_id }, caller)
        if (format === 'json') return new Reply(items, { next })
        return new Reply(receiptsCsv(items, { headings: cursor === undefined }), { next, media: 'text/csv' })
      },
    }),
    operation({
      ...shared,
      id: 'getReceipt',
      path: '/receipts/{id}',
      summary: 'The receipt of a payment',
      description: '`stoa receipts verify` checks offline what it proves.',
      params: ReceiptParams,
      response: ReceiptRecord,
      errors: ['UNKNOWN_RECEIPT'],
      async handler({ params, caller }) {
        const found = await receipts.get(params.id, caller)
        return found ?? unknown()
      },
    }),
    operation({
      ...shared,
      id: 'getX402Receipt',
      path: '/receipts/{id}/x402',
      summary: 'The receipt of a payment as x402 has it',
      description:
        "A receipt of x402's offer-receipt extension, which any client of x402 verifies. It names payer, agent and " +
        'transaction, and neither task nor result. A seller signs it once the payment is settled. For a purchase the ' +
        'node asks the seller for it and checks it: nothing is paid.',
      params: ReceiptParams,
      response: SignedX402Receipt,
      errors: ['UNKNOWN_RECEIPT', 'SELLER_UNREACHABLE', 'SELLER_FAILED'],
      handler: async ({ params, caller, signal }) => (await receipts.x402(params.id, signal, caller)) ?? unknown(),
    }),
  ]
}

function unknown(): never {
  throw new HttpError('UNKNOWN_RECEIPT', 'this node keeps no receipt of this payment. GET /receipts shows all receipts')
}
