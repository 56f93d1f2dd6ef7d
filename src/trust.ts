import type { Catalog } from './market/catalog.ts'
import { createReceipts } from './market/receipts.ts'
import type { Database } from './store/database.ts'
import { createReceiptStore } from './store/receipts.ts'

export type TrustDeps = { database: Database; catalog: Pick<Catalog, 'resolve'> }

/** All by which a buyer tells sellers apart: what they have signed for. */
export function createTrust({ database, catalog }: TrustDeps) {
  const receipts = createReceipts({
    store: createReceiptStore(database),
    nameOf: (agentId) => catalog.resolve(agentId)?.name,
  })
  return { receipts }
}
