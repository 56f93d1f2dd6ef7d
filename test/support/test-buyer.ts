import { randomUUID } from 'node:crypto'
import type { Channels } from '../../src/buying/channels/channels.ts'
import { type ExecuteDeps, type ExecuteRequest, execute } from '../../src/buying/execute.ts'
import { Recovery } from '../../src/buying/recovery.ts'
import { createSendGate } from '../../src/buying/send-gate.ts'
import type { WalletFunds } from '../../src/buying/wallet-checks.ts'
import type { BuyUrlDeps } from '../../src/buying/web/buy-url.ts'
import { WebSellers } from '../../src/buying/web/web-sellers.ts'
import { Changes } from '../../src/lib/changes.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import type { ResolveName } from '../../src/lib/pinned-http.ts'
import type { PaymentChain } from '../../src/payments/chain-verdict.ts'
import type { Wallet } from '../../src/payments/wallet.ts'
import { type OpenStream, StreamPool } from '../../src/protocols/streams.ts'
import type { Listing } from '../../src/schema/listing.ts'
import { MARKETPLACE_PROTOCOL } from '../../src/schema/marketplace.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { X402_PROTOCOL } from '../../src/schema/x402.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createIdempotencyKeys } from '../../src/store/idempotency.ts'
import { createOrderStore } from '../../src/store/orders.ts'
import { createPayees } from '../../src/store/payees.ts'
import { createPurchases, type Order, type Purchases, type StoredReservation } from '../../src/store/purchases.ts'
import { listingFixture } from './fake-api.ts'
import { HandClock } from './hand-clock.ts'
import { agentId, payTo, testWallet, usdc } from './payments.ts'
import { freshRunTime } from './run-time.ts'
import { testBudget } from './test-budget.ts'

export type TestBuyerOptions = {
  open: OpenStream
  clock?: HandClock
  database?: Database
  chain?: PaymentChain | undefined
  wallet?: Wallet
  dailyBudget?: bigint
  funds?: WalletFunds
  maxPrice?: bigint
  /** How long a call waits while its seller ends no other, in ms. */
  slotStalledMs?: number
  /** For purchases over HTTP. */
  privateOrigins?: readonly string[]
  resolve?: ResolveName
}

/** A buyer over any kind of stream: the real purchase, store, guard and recovery. */
export class TestBuyer {
  readonly clock: HandClock
  readonly database: Database
  readonly purchases: Purchases
  readonly streams: StreamPool
  readonly deps: ExecuteDeps & BuyUrlDeps & { channels?: Channels | undefined }
  readonly recovery: Recovery
  /** The listings that the buyer knows, by agent id. */
  readonly market = new Map<string, Listing>()

  constructor(options: TestBuyerOptions) {
    this.clock = options.clock ?? new HandClock()
    this.database = options.database ?? openDatabase({ path: ':memory:' })
    this.purchases = createPurchases(this.database)
    const { slotStalledMs } = options
    const pool = { protocol: X402_PROTOCOL, ...(slotStalledMs !== undefined && { slotStalledMs }) }
    this.streams = new StreamPool(pool, { open: options.open })
    const { clock, purchases, streams, market } = this
    const active: ExecuteDeps['active'] = new Map()
    const changes = new Changes()
    const web = new WebSellers({ asset: usdc, privateOrigins: options.privateOrigins ?? [], resolve: options.resolve })
    const shared = {
      web,
      clock,
      logger: silentLogger,
      purchases,
      streams,
      callerDid: 'did:buyer',
      sendGate: createSendGate(this.database, silentLogger),
      active,
      changes,
    }
    const orders = createOrderStore(this.database)
    const changed = (id: string) => changes.tell(id)
    const { network } = usdc
    const { chain } = options
    const channels = { line: (id: Hex) => this.deps.channels?.line(id), load: async () => this.deps.channels?.load() }
    this.recovery = new Recovery({ ...shared, channels, changed, workers: orders, addrsOf: () => [], network, chain })
    this.deps = {
      ...shared,
      workerOf: orders.workerOf,
      payees: createPayees(this.database),
      recovery: this.recovery,
      wallet: options.wallet ?? testWallet(),
      catalog: { resolve: (id) => market.get(id) },
      runOwn: async (id, { input }) => `${id} here: ${input}`,
      tokens: { findValid: async () => undefined },
      openStream: options.open,
      newId: randomUUID,
      budget: {
        ...testBudget({ perCall: undefined, perDay: options.dailyBudget ?? 1_000_000n }, { clock, purchases }),
        perCall: () => options.maxPrice ?? 100_000n,
      },
      funds: options.funds,
      approvals: { hold: async () => undefined },
      keys: createIdempotencyKeys(this.database, freshRunTime(this.clock)),
      orders: {
        place: async (order, keyed) => void (await orders.place(order, { all: 1_000, perToken: 1_000 }, keyed)),
      },
      orderStore: orders,
      approvalStore: { get: async () => undefined },
      flights: new Map(),
    }
    this.list()
    const protocols = [MARKETPLACE_PROTOCOL, X402_PROTOCOL]
    this.list({ id: 'free', price: 0n, price_atomic: '0', protocols })
  }

  /** Adds a listing to the buyer's market. The default is the paid agent of the test seller. */
  list(changes: Partial<Listing> = {}): void {
    const listing = listingFixture({ id: agentId, pay_to: payTo, asset: usdc.address, seller_id: 'seller', ...changes })
    this.market.set(listing.id, listing)
  }

  execute(request: Partial<ExecuteRequest> = {}) {
    return execute({ agentId, input: 'task', signal: AbortSignal.timeout(60_000), ...request }, this.deps)
  }

  /** All orders of the buyer, each with its signed payment. */
  async ledger(): Promise<{ order: Order; reservation: StoredReservation | undefined }[]> {
    const ids = this.database.prepare('SELECT id FROM orders').all() as { id: string }[]
    return Promise.all(
      ids.map(async ({ id }) => ({
        order: (await this.purchases.order(id))!,
        reservation: await this.purchases.reservationOf(id),
      })),
    )
  }

  spent(): Promise<bigint> {
    return this.purchases.spentOn(new Date(this.clock.now()).toISOString().slice(0, 10))
  }
}
