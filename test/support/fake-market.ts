import { randomBytes, randomUUID } from 'node:crypto'
import { budgetRules } from '../../src/buying/budget-rules.ts'
import { type Buyer, type BuyerDeps, createBuyer } from '../../src/buying/buyer.ts'
import { createLedger, openRecords } from '../../src/ledger/ledger.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { Feed } from '../../src/lib/feed.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createRunTime } from '../../src/store/run-time.ts'
import { testWallet, usdc } from './payments.ts'
import { freshRunTime } from './run-time.ts'

type Options = Partial<BuyerDeps> & {
  maxPrice?: bigint
  rules?: Partial<Parameters<typeof budgetRules>[0]>
  privateOrigins?: readonly string[]
}

/**
 * Starts the real orders, sessions and workflows over a database in memory. Own agents answer with their task in
 * capitals. No other seller is reachable.
 */
export async function fakeMarket(listings: () => readonly Listing[], options: Options = {}): Promise<Buyer> {
  const { clock = systemClock, database = openDatabase({ path: ':memory:' }) } = options
  const runTime = await createRunTime(database, clock)
  const buyer = createFakeMarket(listings, { clock, database, runTime, ...options })
  for (const service of buyer.services) await service.start()
  return buyer
}

/** The same market, not started. The caller starts it. */
export function createFakeMarket(listings: () => readonly Listing[], options: Options = {}): Buyer {
  const { maxPrice = 1_000_000n, rules, privateOrigins, ...deps } = options
  const { clock = systemClock, database = openDatabase({ path: ':memory:' }) } = deps
  const namesOf = (id: string) => listings().find((listing) => listing.id === id)
  return createBuyer(
    {
      callerDid: 'did:peer:me',
      sellerId: '12D3KooWMe',
      rules: budgetRules({ dailyBudgetAtomic: 5_000_000n, maxPriceAtomic: maxPrice, ...rules }),
      ...{ approvalMinutes: 1, privateOrigins },
    },
    {
      clock,
      logger: silentLogger,
      database,
      runTime: freshRunTime(clock),
      trading: { check: () => {} },
      feed: new Feed({ life: 'test' }),
      ledger: createLedger(openRecords(database, { hasChain: false }), { logger: silentLogger, namesOf }),
      wallet: testWallet(),
      catalog: { resolve: namesOf, resourceOf: (id) => id, discovered: () => [] },
      replica: { onChange: () => () => {} },
      chain: undefined,
      sender: () => Promise.reject(new Error('no RPC is configured')),
      openStream: () => Promise.reject(new Error('nobody is there')),
      asset: usdc,
      random: randomBytes,
      runOwn: async (_id, { input }) => input.toUpperCase(),
      measures: { ended: () => {}, settled: () => {} },
      ...deps,
    },
  )
}

/** Holds a purchase for the operator's approval under rules that require approval. @returns the id of the approval */
export async function heldApproval({ orders, approvals }: Buyer, listing: Listing): Promise<string> {
  const wanted = { agentId: listing.id, price: listing.price, task: randomUUID(), tokenId: undefined }
  return (await approvals.hold(orders.compose(wanted), listing))!.id
}
