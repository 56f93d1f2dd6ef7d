import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'

/**
 * Why a purchase is open: its outcome is unknown, the chain has not confirmed it, its seller has named no transaction
 * either, or it is paid and has no result (D44).
 */
type OpenList = 'reserved' | 'unconfirmed' | 'unnamed' | 'unreceived'

/** An open purchase, and its position in the list. */
export type OpenPurchase = { orderId: string; validBeforeSeconds: number; position: OpenPosition }
export type OpenPosition = { at: number; no: number }

type OpenPage = {
  network: string
  limit: number
  /** Only purchases after this position. */
  after?: OpenPosition | undefined
  /** Only purchases created since then. */
  since?: UnixMs | undefined
}

/** Reads the purchases that have not ended. */
export interface OpenPurchases {
  /** One page of a list, oldest first: by the end of the payment window, or by creation for `unconfirmed` and `unnamed`. */
  open(list: OpenList, page: OpenPage): OpenPurchase[]
}

const pageOf = (condition: string, at: 'valid_before_s' | 'created_at') => `
  SELECT o.id AS orderId, a.valid_before_s AS validBeforeSeconds, a.${at} AS at, a.order_no AS no
  FROM authorizations a JOIN orders o ON o.no = a.order_no
  WHERE ${condition} AND a.network = ? AND a.created_at >= ? AND (a.${at}, a.order_no) > (?, ?)
  ORDER BY a.${at}, a.order_no LIMIT ?`
const PAGES: Record<OpenList, string> = {
  reserved: pageOf("a.state = 'reserved'", 'valid_before_s'),
  unconfirmed: pageOf("a.state = 'spent' AND a.confirmed_at IS NULL", 'created_at'),
  unnamed: pageOf("a.state = 'spent' AND a.confirmed_at IS NULL AND a.tx_hash IS NULL", 'created_at'),
  unreceived: pageOf('a.unreceived = 1', 'valid_before_s'),
}
type OpenPurchaseRow = Omit<OpenPurchase, 'position'> & OpenPosition

export function openPurchases(database: Database): OpenPurchases {
  return {
    open: (list, { network, limit, after = { at: -1, no: 0 }, since = 0 }) =>
      database
        .all<OpenPurchaseRow>(PAGES[list], network, since, after.at, after.no, limit)
        .map(({ at, no, ...purchase }) => ({ ...purchase, position: { at, no } })),
  }
}
