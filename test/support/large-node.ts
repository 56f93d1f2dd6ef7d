import { join } from 'node:path'
import { rowOf } from '../../src/listings/rows.ts'
import { sealListing } from '../../src/listings/signed-listing.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { RUN_CANCELED } from '../../src/schema/limits.ts'
import { openDatabase } from '../../src/store/database.ts'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { createListingStore } from '../../src/store/listings.ts'
import { openPostgres } from '../../src/store/postgres/open-postgres.ts'
import { run } from '../../src/store/query.ts'
import { engineEnvironment } from './ledger-engine.ts'
import { listingRecord } from './listings.ts'

/** Fills the databases of a stopped node with listings that other nodes signed, and with calls of its own agents. */
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
  await addExecutions(dataDir, database, counts.executions)
  await database.close()
}

/** Uses one statement: 100,000 separate statements would take longer than the test. */
async function addExecutions(dataDir: string, database: LedgerDatabase, count: number): Promise<void> {
  const { DATABASE_URL: address } = await engineEnvironment(dataDir)
  const ledger = address === undefined ? database : await openPostgres({ address })
  const now = Date.now()
  await ledger.commit(
    run(
      `WITH RECURSIVE counter (no) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT no + 1 FROM counter WHERE no < ?1)
      INSERT INTO exchanges (agent_id, caller_id, correlation_id, input, output, error, created_at, duration_ms)
      SELECT 'agent' || (no % 5), 'caller' || (no % 400), 'exchange ' || no, 'task ' || no,
        CASE WHEN no % 10 <> 0 THEN 'result ' || no END,
        CASE WHEN no % 20 = 0 THEN 'it failed' WHEN no % 10 = 0 THEN '${RUN_CANCELED}' END,
        ?2 - (?1 - no) * 20000, no % 900
      FROM counter`,
      count,
      now,
    ),
  )
  if (ledger !== database) await ledger.close()
}
