import type { Registry } from '../agents/registry.ts'
import type { Config } from '../config/config.ts'
import type { NamesOf } from '../ledger/order-record.ts'
import { createReceipts, type ReceiptsDeps } from '../ledger/receipts.ts'
import { CodedError } from '../lib/errors.ts'
import type { Catalog } from '../listings/catalog.ts'
import { createTransfers } from '../payments/transfers.ts'
import type { Listing } from '../schema/listing.ts'
import type { Hex } from '../schema/primitives.ts'
import type { TransactionCalls } from '../schema/transaction.ts'
import type { OwnAgents } from '../selling/hosted-agents.ts'
import { createLeftTransactions } from '../selling/left-transactions.ts'
import { createRefunds, type RefundsDeps } from '../selling/refunds.ts'
import { heldByAuthorizations } from '../store/held.ts'
import { createReceiptStore } from '../store/receipts.ts'
import { createAutoFeedback } from '../trust/auto-feedback.ts'
import { knownReputation } from '../trust/known-reputation.ts'
import type { Measures } from '../trust/measures.ts'
import type { ReputationApi, ReputationCalls } from '../trust/reputation.ts'
import type { Foundation } from './foundation.ts'

type TrustDeps = Pick<Foundation, 'database' | 'chain' | 'wallet' | 'transactions' | 'clock' | 'logger' | 'feed'> & {
  catalog: Pick<Catalog, 'resolve'>
  namesOf: NamesOf
  measures: Measures
  x402Receipts: ReceiptsDeps['x402']
  selling: {
    agents: Pick<OwnAgents, 'relist'>
    registry: Pick<Registry, 'get'>
    x402: Pick<RefundsDeps, 'payments' | 'running' | 'unrun'>
  }
}

export type Trust = ReturnType<typeof createTrust>

const mined = ({ hash }: { hash: Hex }) => ({ tx_hash: hash })

/** Chain reads at the same time, for all callers. Any web page may trigger reads. */
const READS_MAX = 8

/** The facts by which a buyer compares sellers: signed receipts, own measurements, and the chain's ratings. */
export function createTrust({ publicUrl, buyer: { rateEvery } }: Config, deps: TrustDeps) {
  const { database, catalog, measures, chain, wallet, transactions, clock, logger, feed, selling } = deps
  const listing = (agentId: string) => catalog.resolve(agentId)
  const receipts = createReceipts({
    store: createReceiptStore(database),
    nameOf: (agentId) => deps.namesOf(agentId)?.name,
    x402: deps.x402Receipts,
  })

  let loading: Promise<ReputationApi> | undefined
  /** Loads when the chain is first read. */
  async function registries(): Promise<ReputationApi> {
    if (chain === undefined) {
      throw new CodedError('CHAIN_UNAVAILABLE', 'no RPC is configured: set ETHEREUM_RPC_URL or --rpc-url')
    }
    const calls = (agentId: string) => measures.stats(agentId).calls
    loading ??= import('../trust/reputation.ts').then(({ createReputation }) =>
      createReputation({
        ...{ chain, wallet, transactions, clock, listing, calls, publicUrl },
        relist: selling.agents.relist,
        imageOf: (agentId) => selling.registry.get(agentId)?.definition.image,
      }),
    )
    return loading
  }

  const lane = async () => ({ sender: (await registries()).transactions, chain: chain! })
  const held = async () => heldByAuthorizations(database, wallet.asset.network)
  const transfers = createTransfers({ wallet, logger, lane, held })

  let reading = 0
  const transactionCalls: TransactionCalls = {
    async open() {
      const waiting = await (await registries()).transactions.open()
      return waiting.map((one) => ({
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
      if (reading >= READS_MAX) throw new CodedError('OVERLOADED', 'too many reads of the chain at once: try again')
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
  const feedback = createAutoFeedback(
    { every: rateEvery ?? Number.POSITIVE_INFINITY },
    {
      ...{ feed, logger, rate: reputation.rate },
      successRate: (agentId) => measures.stats(agentId).success_rate ?? 0,
      isRatable: (agentId) => listing(agentId)?.local === false && listing(agentId)?.token_id !== undefined,
    },
  )
  const { payments, running, unrun } = selling.x402
  const sender = async () => (await registries()).transactions
  const left = createLeftTransactions({ clock, logger, wallet, transactions, payments, sender })
  const { refund } = createRefunds({ clock, logger, wallet, transactions, lane, held, payments, running, unrun })
  return {
    api: { receipts, reputation, transfers },
    refund,
    standing,
    /** The only sender of this node's transactions. */
    sender: async () => (await registries()).transactions,
    /** Goes on with the transactions of processes that have ended. */
    takeOver: left.wake,
    // Without a chain nothing can be sent.
    services: [...(chain === undefined ? [] : [left]), ...(rateEvery === undefined ? [] : [feedback])],
  }
}
