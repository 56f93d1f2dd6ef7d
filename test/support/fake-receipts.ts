import { type Receipts, receiptRecord } from '../../src/ledger/receipts.ts'
import { receiptOf } from '../../src/payments/receipt.ts'
import { x402ReceiptOf } from '../../src/payments/x402-receipt.ts'
import { agentId, requirements, sellerWallet, signed } from './payments.ts'

const at = Date.UTC(2026, 10, 21)
const { paymentId, envelope } = signed(at)
const delivery = { network: 'eip155:84532', agentId, task: 'a task', result: 'a summary', paymentId }

/** The receipt of an order with the task `a task` and the result `a summary`. */
export const receiptFixture = receiptRecord(
  {
    direction: 'out',
    paymentId,
    agentId,
    peerId: '12D3KooWJWEKvSFbben74C7H4YtKjhPMTDxd7gP7zxWSUEeF27st',
    requirements: requirements(),
    payer: envelope.payer,
    signed: envelope.payload!,
    txHash: undefined,
    receipt: sellerWallet.signReceipt(receiptOf({ ...delivery, payer: envelope.payer }, at)),
    note: undefined,
    createdAt: at,
  },
  'Summary',
)

/** The same receipt as x402 has it. */
export const x402ReceiptFixture = sellerWallet.signX402Receipt(
  x402ReceiptOf({
    ...{ network: delivery.network, agentId, payer: envelope.payer },
    ...{ issuedAt: at / 1000, txHash: `0x${'9a'.repeat(32)}` },
  }),
)

/** A store that holds only this receipt. */
export const fakeReceipts: Receipts = {
  list: async () => ({ items: [receiptFixture], next: undefined }),
  get: async (id) => (id === receiptFixture.payment_id ? receiptFixture : undefined),
  x402: async (id) => (id === receiptFixture.payment_id ? x402ReceiptFixture : undefined),
  export: async () => ({ items: [receiptFixture], next: undefined }),
}
