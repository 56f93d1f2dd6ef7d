import * as z from 'zod'
import { parseJson } from '../lib/json.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { all, one } from './query.ts'

/** Who may still send the signed payment of an order that was taken over. */
export interface Senders {
  /**
   * True if another process signed the payment of an order, and it is not certain that this process has ended. It may have
   * been cut off from the ledger only, or stand still, and send the payment when it goes on.
   */
  maySendElsewhere(orderId: string): Promise<boolean>
}

const SENDER = `
  SELECT a.sender, p.id, p.report, p.started_at,
    CASE WHEN p.ended_at IS NOT NULL AND p.lease_until > p.ended_at THEN 1 ELSE 0 END AS has_left
  FROM orders o JOIN authorizations a ON a.order_no = o.no LEFT JOIN processes p ON p.id = a.sender WHERE o.id = ?`
const STARTED_SINCE = 'SELECT report FROM processes WHERE started_at > ? AND report IS NOT NULL'
type SenderRow = {
  /** Null: signed by an earlier version. */
  sender: string | null
  /** Null: it ended days ago, or the ledger was copied since. */
  id: string | null
  report: string | null
  started_at: number
  has_left: number
}
const Home = z.object({ home: z.string() })

export function senders(database: LedgerDatabase): Senders {
  /** One process at a time has a data directory. So one that has started in the same directory since shows that the sender was killed. */
  async function hasSuccessor({ report, started_at }: SenderRow): Promise<boolean> {
    const home = homeOf(report)
    if (home === undefined) return false
    const later = await database.query(all<{ report: string }>(STARTED_SINCE, started_at))
    return later.some((process) => homeOf(process.report) === home)
  }

  return {
    async maySendElsewhere(orderId) {
      // One process at a time has the file of SQLite, so the process that signed has ended.
      if (database.time === undefined) return false
      const row = await database.query(one<SenderRow>(SENDER, orderId))
      if (row === undefined || row.sender === database.process) return false
      if (row.sender === null) return true
      return row.id !== null && row.has_left === 0 && !(await hasSuccessor(row))
    },
  }
}

function homeOf(report: string | null): string | undefined {
  return report === null ? undefined : Home.safeParse(parseJson(report)).data?.home
}
