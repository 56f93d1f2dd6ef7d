import { isoTime } from '../lib/clock.ts'
import { csvLine } from '../lib/csv.ts'
import { defined } from '../lib/defined.ts'
import { MarketError } from '../listings/market-error.ts'
import { assetOf } from '../payments/assets.ts'
import { formatAmount } from '../schema/amount.ts'
import { type Caller, OPERATOR, ownerSeen } from '../schema/caller.ts'
import { PAGE_ITEMS_MAX, RECEIPTS_EXPORTED_MAX } from '../schema/limits.ts'
import type { Page } from '../schema/page.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedX402Receipt } from '../schema/receipt.ts'
import type { Direction, ReceiptRecord } from '../schema/receipt-record.ts'
import type { ReceiptStore, ReceiptsQuery, StoredReceipt } from '../store/receipts.ts'

export type ReceiptsDeps = {
  store: ReceiptStore
  nameOf(agentId: string): string | undefined
  x402: X402Receipts
}
/** Makes receipts as x402's offer-receipt extension has them. They throw PeerError or MarketError where there is none. */
type X402Receipts = {
  /** Signs one for a payment to this node. */
  give(paymentId: Hex): Promise<SignedX402Receipt>
  /** Asks the seller of a purchase for one. */
  ask(purchase: StoredReceipt, signal: AbortSignal): Promise<SignedX402Receipt>
}
export type ReceiptSelection = {
  direction?: Direction | undefined
  agentId?: string | undefined
  cursor?: string | undefined
}

export interface Receipts {
  list(query: Omit<ReceiptsQuery, 'ownerId'>, caller?: Caller): Promise<Page<ReceiptRecord>>
  get(paymentId: string, caller?: Caller): Promise<ReceiptRecord | undefined>
  /**
   * The receipt as x402 has it: signed here, asked of the seller, or as a seller over HTTP sent it. Undefined if no receipt of the
   * payment is kept.
   */
  x402(paymentId: string, signal: AbortSignal, caller?: Caller): Promise<SignedX402Receipt | undefined>
  /** Returns the largest page an answer may hold. Its `next` leads to the following page. */
  export(selection: ReceiptSelection, caller?: Caller): Promise<Page<ReceiptRecord>>
}

export function createReceipts({ store, nameOf, x402 }: ReceiptsDeps): Receipts {
  const list: Receipts['list'] = async (query, caller = OPERATOR) => {
    const { items, next } = await store.list({ ...query, ownerId: ownerSeen(caller) })
    return { items: items.map((receipt) => receiptRecord(receipt, nameOf(receipt.agentId))), next }
  }
  return {
    list,
    async get(paymentId, caller = OPERATOR) {
      const found = await store.get(paymentId, ownerSeen(caller))
      return found && receiptRecord(found, nameOf(found.agentId))
    },
    async x402(paymentId, signal, caller = OPERATOR) {
      const found = await store.get(paymentId, ownerSeen(caller))
      if (found === undefined) return undefined
      if (found.direction === 'in') return x402.give(found.paymentId)
      const web = await store.webOf(found.paymentId)
      if (web === undefined) return x402.ask(found, signal)
      // A seller over HTTP gives its receipt with the result, or never.
      if (web.receipt !== undefined) return web.receipt
      throw new MarketError('SELLER_FAILED', 'the seller sent no valid receipt of x402 with its result over HTTP')
    },
    async export(selection, caller = OPERATOR) {
      const items: ReceiptRecord[] = []
      let next = selection.cursor
      do {
        const page = await list({ ...selection, limit: PAGE_ITEMS_MAX, cursor: next }, caller)
        items.push(...page.items)
        next = page.next
      } while (next !== undefined && items.length + PAGE_ITEMS_MAX <= RECEIPTS_EXPORTED_MAX)
      return { items, next }
    },
  }
}

export function receiptRecord(stored: StoredReceipt, name: string | undefined): ReceiptRecord {
  const { direction, paymentId, agentId, peerId, requirements, payer, txHash, receipt, note, metered } = stored
  const { network, asset, amount, payTo } = requirements
  const status = receipt !== undefined ? 'valid' : note === '' ? 'missing' : 'wrong'
  return {
    payment_id: paymentId,
    direction,
    agent_id: agentId,
    ...(name !== undefined && { agent_name: name }),
    peer_id: peerId,
    amount: formatAmount(amount, assetOf(network)?.decimals ?? 0),
    amount_atomic: amount.toString(),
    network,
    asset,
    payer,
    pay_to: payTo,
    tx_hash: txHash ?? '',
    status,
    ...(status === 'wrong' && { note: note ?? '' }),
    ...(receipt !== undefined && { issued_at: isoTime(receipt.payload.issuedAt * 1000), receipt }),
    ...paidBy(stored),
    ...defined({ units: metered?.units, cut: metered?.cut }),
    created_at: isoTime(stored.createdAt),
  }
}

/** What a receipt is checked with: the payment id is the hash of either. */
function paidBy({ signed, channel }: StoredReceipt): Pick<ReceiptRecord, 'authorization' | 'channel'> {
  if (signed === undefined) {
    if (channel === undefined) return {}
    const { id, correlationId: correlation_id, config } = channel
    return { channel: { id, correlation_id, ...(config !== undefined && { config }) } }
  }
  const { from, to, value, validAfter, validBefore, nonce } = signed.authorization
  const amounts = { value: `${value}`, validAfter: `${validAfter}`, validBefore: `${validBefore}` }
  return { authorization: { from, to, ...amounts, nonce } }
}

const columns: Record<string, (record: ReceiptRecord) => string | undefined> = {
  payment_id: (record) => record.payment_id,
  direction: (record) => record.direction,
  status: (record) => record.status,
  created_at: (record) => record.created_at,
  issued_at: (record) => record.issued_at,
  agent_id: (record) => record.agent_id,
  agent_name: (record) => record.agent_name,
  peer_id: (record) => record.peer_id,
  amount: (record) => record.amount,
  amount_atomic: (record) => record.amount_atomic,
  network: (record) => record.network,
  asset: (record) => record.asset,
  payer: (record) => record.payer,
  pay_to: (record) => record.pay_to,
  tx_hash: (record) => record.tx_hash,
  task_hash: (record) => record.receipt?.payload.taskHash,
  result_hash: (record) => record.receipt?.payload.resultHash,
  signature: (record) => record.receipt?.signature,
  note: (record) => record.note,
  format: (record) => record.receipt?.format,
  channel_id: (record) => record.channel?.id,
  input_tokens: ({ units }) => units?.input_tokens?.toString(),
  output_tokens: ({ units }) => units?.output_tokens?.toString(),
  milliseconds: ({ units }) => units?.milliseconds?.toString(),
  cut: ({ cut }) => cut?.toString(),
}

/** CSV with one line per receipt. `headings` adds the column names; omit them when the text continues another. */
export function receiptsCsv(records: readonly ReceiptRecord[], { headings }: { headings: boolean }): string {
  const lines = records.map((record) => csvLine(Object.values(columns).map((read) => read(record) ?? '')))
  return (headings ? csvLine(Object.keys(columns)) : '') + lines.join('')
}
