import type { Buyer } from '../buying/buyer.ts'
import { askForX402Receipt } from '../buying/x402-receipt.ts'
import type { ReceiptsDeps } from '../ledger/receipts.ts'
import type { Catalog } from '../listings/catalog.ts'
import type { X402ServerDeps } from '../protocols/x402/exchange.ts'
import { signX402Receipt } from '../protocols/x402/receipts.ts'
import type { Foundation } from './foundation.ts'

type X402ReceiptsDeps = Pick<Foundation, 'identity'> & {
  catalog: Pick<Catalog, 'resolve' | 'resourceOf'>
  buyer: Pick<Buyer, 'streams'>
  sales: Pick<X402ServerDeps, 'payments' | 'receiptSigner'>
}

/** Receipts as x402 has them: signed by this node for what it sold, and asked of the sellers of what it bought. */
export function createX402Receipts({ identity, catalog, buyer, sales }: X402ReceiptsDeps): ReceiptsDeps['x402'] {
  const asking = { catalog, streams: buyer.streams, callerDid: identity.did }
  return {
    give: async (id) => signX402Receipt((await sales.payments.get(id))!, sales),
    ask: (purchase, signal) => askForX402Receipt(purchase, asking, signal),
  }
}
