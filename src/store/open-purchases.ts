import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all } from './query.ts'

/**
 * Why a purchase is open: its outcome is unknown, the chain has not confirmed it, its seller has named no transaction
 * either, or it is paid and has no result (D44).
 */
type OpenList = 'reserved' | 'unconfirmed' | 'unnamed' | 'unreceived'

/** An open purchase, the list that it was read from, and its position there. */
export type OpenPurchase = {
  list: OpenList
  orderId: string
  paymentId: Hex
  sellerId: string
  validBeforeSeconds: number
  position: OpenPosition
}
export type OpenPosition = { at: number; no: number }

type OpenPage = {
  network: string
  limit: number
  /** Only purchases after this position. */
  after?: OpenPosition | undefined
  /** Only purchases created since then. */
  since?: UnixMs | undefined
}

/** Reads the purchases of this process that have not ended. */
export interface OpenPurchases {
  /** One page of a list, oldest first: by the end of the payment window, or by creation for `unconfirmed` and `unnamed`. */
  open(list: OpenList, page: OpenPage): Promise<OpenPurchase[]>
}

const pageOf = (condition: string, at: 'valid_before_s' | 'created_at') => `
  SELECT o.id AS order_id, a.payment_id, a.seller_id, a.valid_before_s, a.${at} AS at, a.order_no
  FROM authorizations a JOIN orders o ON o.no = a.order_no
  WHERE ${condition} AND o.owner = ? AND a.network = ? AND a.created_at >= ? AND (a.${at}, a.order_no) > (?, ?)
  ORDER BY a.${at}, a.order_no LIMIT ?`
const PAGES: Record<OpenList, string> = {
  reserved: pageOf("a.state = 'reserved'", 'valid_before_s'),
  unconfirmed: pageOf("a.state = 'spent' AND a.confirmed_at IS NULL", 'created_at'),
  unnamed: pageOf("a.state = 'spent' AND a.confirmed_at IS NULL AND a.tx_hash IS NULL", 'created_at'),
  unreceived: pageOf('a.unreceived = 1', 'valid_before_s'),
}
type OpenPurchaseRow = {
  order_id: string
  payment_id: Uint8Array
  seller_id: string
  valid_before_s: number
  at: number
  order_no: number
}

export function openPurchases(database: LedgerDatabase): OpenPurchases {
  return {
    async open(list, { network, limit, after = { at: -1, no: 0 }, since = 0 }) {
      const page = all<OpenPurchaseRow>(PAGES[list], database.process, network, since, after.at, after.no, limit)
      return (await database.query(page)).map((row) => ({
        list,
        orderId: row.order_id,
        paymentId: toHex(row.payment_id),
        sellerId: row.seller_id,
        validBeforeSeconds: row.valid_before_s,
        position: { at: row.at, no: row.order_no },
      }))
    },
  }
}
