import type { Chain } from '../chain/chain.ts'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { createReceipts } from '../ledger/receipts.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import type { Catalog } from '../listings/catalog.ts'
import { createTransfers } from '../payments/transfers.ts'
import type { Wallet } from '../payments/wallet.ts'
import type { Listing } from '../schema/listing.ts'
import type { Hex } from '../schema/primitives.ts'
import type { TransactionCalls } from '../schema/transaction.ts'
import { createRefunds, type RefundsDeps } from '../selling/refunds.ts'
import type { Database } from '../store/database.ts'
import { heldByAuthorizations } from '../store/held.ts'
import { createReceiptStore } from '../store/receipts.ts'
import type { Transactions } from '../store/transactions.ts'
import { createAutoFeedback } from '../trust/auto-feedback.ts'
import { knownReputation } from '../trust/known-reputation.ts'
import type { Measures } from '../trust/measures.ts'
import type { ReputationApi, ReputationCalls } from '../trust/reputation.ts'

type TrustDeps = {
  database: Database
  catalog: Pick<Catalog, 'resolve'>
  measures: Measures
  chain: Chain | undefined
  wallet: Wallet
  transactions: Transactions
  clock: Clock
  relist(agentId: string): Promise<void>
  /** The image URL for the registration file of an own agent. */
  imageOf(agentId: string): string | undefined
  publicUrl: string | undefined
  feed: NodeFeed
  logger: Logger
  /** Rate an agent on the chain after this many paid orders. Undefined: only on request. */
  rateEvery: number | undefined
}

const mined = ({ hash }: { hash: Hex }) => ({ tx_hash: hash })

/** Chain reads at the same time, for all callers. Any web page may trigger reads. */
const READS_MAX = 8

/** The facts by which a buyer compares sellers: signed receipts, own measurements, and the chain's ratings. */
export function createTrust(deps: TrustDeps) {
  const { database, catalog, measures, chain, wallet, transactions, clock, relist, imageOf, publicUrl } = deps
  const listing = (agentId: string) => catalog.resolve(agentId)
  const receipts = createReceipts({
    store: createReceiptStore(database),
    nameOf: (agentId) => listing(agentId)?.name,
  })

  let loading: Promise<ReputationApi> | undefined
  /** Loads when the chain is first read. */
  async function registries(): Promise<ReputationApi> {
    if (chain === undefined) {
      throw new CodedError('CHAIN_UNAVAILABLE', 'no RPC is configured: set ETHEREUM_RPC_URL or --rpc-url')
    }
    const calls = (agentId: string) => measures.stats(agentId).calls
    loading ??= import('../trust/reputation.ts').then(({ createReputation }) =>
      createReputation({ chain, wallet, transactions, clock, listing, relist, calls, imageOf, publicUrl }),
    )
    return loading
  }

  const lane = async () => ({ sender: (await registries()).transactions, chain: chain! })
  const held = () => heldByAuthorizations(database, wallet.asset.network)
  const transfers = createTransfers({ wallet, logger: deps.logger, lane, held })

  let reading = 0
  const transactionCalls: TransactionCalls = {
    async open() {
      return (await registries()).transactions.open().map((one) => ({
        ...{ tx_hash: one.hash, purpose: one.purpose, network: one.network, account: one.account, to: one.to },
        account_nonce: one.accountNonce,
      }))
    },
    replace: async (hash, signal) => mined(await (await registries()).transactions.replace(hash as Hex, signal)),
    abandon: async (hash, signal) => mined(await (await registries()).transactions.abandon(hash as Hex, signal)),
  }
  const reputation: ReputationCalls = {
    transactions: transactionCalls,
    async read(tokenId, signal) {
      if (reading >= READS_MAX) throw new CodedError('OVERLOADED', 'the chain is asked enough at once: try again')
      reading++
      try {
        return await (await registries()).read(tokenId, signal)
      } finally {
        reading--
      }
    },
    register: async (...args) => (await registries()).register(...args),
    rate: async (...args) => (await registries()).rate(...args),
  }
  const known = knownReputation({ clock, read: async (one) => (await registries()).ofListing(one) })

  /** What this node knows about an agent beyond its listing. */
  function standing(one: Listing): Pick<Listing, 'stats' | 'reputation'> {
    const said = chain === undefined ? undefined : known(one)
    return { stats: measures.stats(one.id), ...(said !== undefined && { reputation: said }) }
  }
  const { feed, logger, rateEvery } = deps
  const feedback = createAutoFeedback(
    { every: rateEvery ?? Number.POSITIVE_INFINITY },
    {
      ...{ feed, logger, rate: reputation.rate },
      successRate: (agentId) => measures.stats(agentId).success_rate ?? 0,
      isRatable: (agentId) => listing(agentId)?.local === false && listing(agentId)?.token_id !== undefined,
    },
  )
  const refundsOf = (selling: Pick<RefundsDeps, 'payments' | 'running'>) =>
    createRefunds({
      ...{ clock, logger, wallet, transactions, lane, held },
      payments: selling.payments,
      running: selling.running,
    })
  return {
    api: { receipts, reputation, transfers },
    refundsOf,
    standing,
    services: rateEvery === undefined ? [] : [feedback],
  }
}
