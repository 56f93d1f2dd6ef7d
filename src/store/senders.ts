import * as z from 'zod'
import { parseJson } from '../lib/json.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { one } from './query.ts'

/** Who may still send the signed payment of an order that was taken over. */
export interface Senders {
  /**
   * True if another process signed the payment of an order, and it is not certain that this process has ended. It may have
   * been cut off from the ledger only, or stand still, and send the payment when it goes on.
   */
  maySendElsewhere(orderId: string): Promise<boolean>
}

const SENDER = `
  SELECT a.sender, p.id, p.report, own.report AS own_report,
    CASE WHEN p.ended_at IS NOT NULL AND p.lease_until > p.ended_at THEN 1 ELSE 0 END AS has_left
  FROM orders o JOIN authorizations a ON a.order_no = o.no
    LEFT JOIN processes p ON p.id = a.sender LEFT JOIN processes own ON own.id = ?
  WHERE o.id = ?`
type SenderRow = {
  /** Null: signed by an earlier version. */
  sender: string | null
  /** Null: it ended days ago, or the ledger was copied since. */
  id: string | null
  report: string | null
  own_report: string | null
  has_left: number
}
const Home = z.object({ home: z.string() })

export function senders(database: LedgerDatabase): Senders {
  return {
    async maySendElsewhere(orderId) {
      // SQLite lets one process have the file at a time: whoever signed before has ended.
      if (database.time === undefined) return false
      const row = await database.query(one<SenderRow>(SENDER, database.process, orderId))
      if (row === undefined || row.sender === database.process) return false
      if (row.sender === null) return true
      if (row.id === null || row.has_left === 1) return false
      // One process at a time has a data directory: the one before was killed.
      const home = homeOf(row.report)
      return home === undefined || home !== homeOf(row.own_report)
    },
  }
}

function homeOf(report: string | null): string | undefined {
  return report === null ? undefined : Home.safeParse(parseJson(report)).data?.home
}
