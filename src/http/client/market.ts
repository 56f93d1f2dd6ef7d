import type * as z from 'zod'
import { formatPrice } from '../../schema/amount.ts'
import { Listings } from '../../schema/api.ts'
import type { ChannelWish } from '../../schema/channel.ts'
import { Listing } from '../../schema/listing.ts'
import { type CreateOrder, OrderRecord, OrderRecords, type OrderStatus } from '../../schema/order.ts'
import type { Page } from '../../schema/page.ts'
import { SignedX402Receipt } from '../../schema/receipt.ts'
import { type Direction, ReceiptRecord, ReceiptRecords } from '../../schema/receipt-record.ts'
import type { AgentQuery } from '../../schema/search.ts'
import { SessionRecord, SessionRecords } from '../../schema/session.ts'
import { FeedbackGiven, type GiveFeedback, OnchainIdentity } from '../../schema/standing.ts'
import { MinedTransaction, type WaitingTransaction, WaitingTransactions } from '../../schema/transaction.ts'
import { type SendTransfer, Transfer } from '../../schema/transfer.ts'
import {
  type CreateWorkflowBody,
  WorkflowQuote,
  WorkflowRecord,
  WorkflowRecords,
  type WorkflowStatus,
} from '../../schema/workflow.ts'
import { at, type Options, type PageOptions, type Requests } from './requests.ts'

/** The request returns when the work has ended, or after this time. At most 60 s. */
type WaitOptions = { waitSeconds?: number }

/** Searches, orders, receipts, sessions, workflows of a running node. They throw the errors of ApiClient. */
export type MarketCalls = {
  /** Part of the market, the best match first. */
  searchAgents(query?: AgentQuery, options?: Options): Promise<Page<Listing>>
  /** Finds an agent by its id, the start of its id, its name, or `seller/name`. */
  agent(reference: string, options?: Options): Promise<Listing>
  createOrder(
    order: { agentId: string; price: bigint; task?: string | undefined; channel?: ChannelWish | undefined },
    options?: Options,
  ): Promise<OrderRecord>
  executeOrder(id: string, task: string, options?: Options): Promise<OrderRecord>
  cancelOrder(id: string, options?: Options): Promise<OrderRecord>
  order(id: string, options?: Options & WaitOptions): Promise<OrderRecord>
  orders(
    query?: PageOptions & {
      status?: OrderStatus | undefined
      agentId?: string | undefined
      idempotencyKey?: string | undefined
    },
    options?: Options,
  ): Promise<Page<OrderRecord>>
  receipts(
    query?: PageOptions & { direction?: Direction | undefined; agentId?: string | undefined },
    options?: Options,
  ): Promise<Page<ReceiptRecord>>
  receipt(paymentId: string, options?: Options): Promise<ReceiptRecord>
  /** The receipt as x402 has it. The node may have to ask the seller. */
  x402Receipt(paymentId: string, options?: Options): Promise<SignedX402Receipt>
  /** This and the next call wait for a transaction and cost gas. */
  registerOnchain(agentId: string, file: { uri?: string | undefined }, options?: Options): Promise<OnchainIdentity>
  giveFeedback(agentId: string, feedback: GiveFeedback, options?: Options): Promise<FeedbackGiven>
  /** Transactions of the node that are sent and not mined. */
  transactions(options?: Options): Promise<WaitingTransaction[]>
  /** Raises the fee of a transaction, or abandons it. */
  changeTransaction(hash: string, change: 'replace' | 'abandon', options?: Options): Promise<MinedTransaction>
  /** Sends money from the node's wallet and waits until the transaction is mined. */
  sendFromWallet(transfer: SendTransfer, options?: Options): Promise<Transfer>
  sessions(agentId: string, query?: PageOptions, options?: Options): Promise<Page<SessionRecord>>
  /** `next` leads to earlier exchanges. */
  session(
    agentId: string,
    callerId: string,
    query?: PageOptions,
    options?: Options,
  ): Promise<{ session: SessionRecord; next: string | undefined }>
  /** Returns the cost of a workflow. Stores, runs and pays nothing. */
  quoteWorkflow(definition: CreateWorkflowBody, options?: Options): Promise<WorkflowQuote>
  createWorkflow(definition: CreateWorkflowBody, options?: Options): Promise<WorkflowRecord>
  cancelWorkflow(id: string, options?: Options): Promise<WorkflowRecord>
  workflow(id: string, options?: Options & WaitOptions): Promise<WorkflowRecord>
  workflows(
    query?: PageOptions & { status?: WorkflowStatus | undefined },
    options?: Options,
  ): Promise<Page<WorkflowRecord>>
}

/** A cancellation waits until the work has stopped. */
const CANCEL_TIMEOUT_MS = 60_000
const ANSWER_MARGIN_MS = 30_000
/** How long to wait for a transaction. The next call may continue to wait. */
const CHAIN_TIMEOUT_MS = 120_000

export function marketCalls({ request, linked }: Requests): MarketCalls {
  const page = async <T extends z.ZodType>(path: string, query: object, items: T, options?: Options) => {
    const { body, next } = await linked(path, query, items, options)
    return { items: body, next }
  }
  const mined = (options?: Options) => ({ timeoutMs: CHAIN_TIMEOUT_MS, ...options })
  const cancel = <T extends z.ZodType>(path: string, response: T, options?: Options) =>
    request(path, response, { timeoutMs: CANCEL_TIMEOUT_MS, ...options }, undefined, 'DELETE')
  const waiting = <T extends z.ZodType>(
    path: string,
    response: T,
    { waitSeconds = 0, ...options }: Options & WaitOptions,
  ) =>
    request(`${path}?wait=${waitSeconds}`, response, { timeoutMs: waitSeconds * 1000 + ANSWER_MARGIN_MS, ...options })

  return {
    searchAgents({ max_price, ...query } = {}, options) {
      const price = max_price === undefined ? {} : { max_price: formatPrice(max_price) }
      return page('/agents', { ...query, ...price }, Listings, options)
    },
    agent: (reference, options) => request(at('agents', reference), Listing, options),
    createOrder({ agentId, price, task, channel }, options) {
      const body: z.input<typeof CreateOrder> = { agent_id: agentId, price: formatPrice(price), task, channel }
      return request('/orders', OrderRecord, options, body)
    },
    executeOrder: (id, task, options) => request(`${at('orders', id)}/execute`, OrderRecord, options, { task }),
    cancelOrder: (id, options) => cancel(at('orders', id), OrderRecord, options),
    order: (id, options = {}) => waiting(at('orders', id), OrderRecord, options),
    orders: ({ agentId, idempotencyKey, ...query } = {}, options) =>
      page('/orders', { ...query, agent_id: agentId, idempotency_key: idempotencyKey }, OrderRecords, options),
    receipts: ({ agentId, ...query } = {}, options) =>
      page('/receipts', { ...query, agent_id: agentId }, ReceiptRecords, options),
    registerOnchain: (agentId, file, options) =>
      request(
        `${at('agents', agentId)}/register-onchain`,
        OnchainIdentity,
        // Covers the mint and the transaction of the registration file.
        { timeoutMs: 2 * CHAIN_TIMEOUT_MS, ...options },
        file,
      ),
    giveFeedback: (agentId, feedback, options) =>
      request(`${at('agents', agentId)}/feedback`, FeedbackGiven, mined(options), feedback),
    transactions: (options) => request('/transactions', WaitingTransactions, options),
    changeTransaction: (hash, change, options) =>
      request(`${at('transactions', hash)}/${change}`, MinedTransaction, mined(options), {}),
    sendFromWallet: (transfer, options) => request('/wallet/send', Transfer, mined(options), transfer),
    receipt: (paymentId, options) => request(at('receipts', paymentId), ReceiptRecord, options),
    x402Receipt: (paymentId, options) => request(`${at('receipts', paymentId)}/x402`, SignedX402Receipt, options),
    sessions: (agentId, query = {}, options) => page(at('sessions', agentId), query, SessionRecords, options),
    async session(agentId, callerId, query = {}, options) {
      const { body, next } = await linked(at('sessions', agentId, callerId), query, SessionRecord, options)
      return { session: body, next }
    },
    quoteWorkflow: (definition, options) => request('/workflows?dry_run=true', WorkflowQuote, options, definition),
    createWorkflow: (definition, options) => request('/workflows', WorkflowRecord, options, definition),
    cancelWorkflow: (id, options) => cancel(at('workflows', id), WorkflowRecord, options),
    workflow: (id, options = {}) => waiting(at('workflows', id), WorkflowRecord, options),
    workflows: (query = {}, options) => page('/workflows', query, WorkflowRecords, options),
  }
}
