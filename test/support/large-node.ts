import { join } from 'node:path'
import { rowOf } from '../../src/listings/rows.ts'
import { sealListing } from '../../src/listings/signed-listing.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { listingRecord } from './listings.ts'

/** Fills the database of a stopped node with listings that other nodes signed, and with calls of its own agents. */
export async function fillDataDir(dataDir: string, counts: { listings: number; executions: number }): Promise<void> {
  const database = openDatabase({ path: join(dataDir, 'stoa.db') })
  const store = createListingStore(database)
  const sellers = await Promise.all(Array.from({ length: 20 }, createIdentity))
  const now = Date.now()
  for (let no = 0; no < counts.listings; no++) {
    const seller = sellers[no % sellers.length]!
    const price = BigInt(no % 50) * 1_000n
    const record = listingRecord(seller.peerId, `Agent ${no}`, now - no, { price_atomic: price, tags: ['many'] })
    const { entry, envelope } = await sealListing(record, seller)
    store.putLater(rowOf(entry, envelope, { seenAt: now }))
  }
  await store.flush()
  // Uses one statement: 100,000 separate statements would take longer than the test.
  await database.write(() =>
    database
      .prepare(`
        WITH RECURSIVE counter (no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM counter WHERE no < ?)
        INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, output, error, created_at, duration_ms)
        SELECT 'agent' || (no % 5), 'caller' || (no % 400), 'exchange ' || no, 'task ' || no,
          iif(no % 20 = 0, NULL, 'result ' || no), iif(no % 20 = 0, 'it failed', NULL), ? - (? - no) * 20000, no % 900
        FROM counter`)
      .run(counts.executions, now, counts.executions),
  )
  await database.close()
}
