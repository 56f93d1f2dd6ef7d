import type { UnixMs } from '../lib/clock.ts'
import { takeOverChannels } from './buyer-channels.ts'
import { endOrdersOfRuns, endUnattended, IS_UNSIGNED } from './idempotency.ts'
import { endOrdersOfBackup } from './ledger-turn.ts'
import { LEFT_BEHIND } from './ownership.ts'
import { type Query, run, together } from './query.ts'

const REOPEN = `
  UPDATE orders SET status = CASE WHEN cancel_requested_at IS NULL THEN 'pending' ELSE 'cancelled' END, updated_at = ?
  WHERE status IN ('pending', 'executing') AND status = 'executing'
    AND ${IS_UNSIGNED} AND ${LEFT_BEHIND}`
/** A call on a channel is looked after by the process that has the channel. Its channel has been taken over before. */
const FOLLOWS_CHANNEL = `NOT EXISTS (
  SELECT 1 FROM authorizations a JOIN buyer_channels c ON c.no = a.channel
  WHERE a.order_no = orders.no AND a.state = 'reserved' AND c.owner <> ?1)`
/** Open orders, and orders whose payment is not final yet. Each by its own index: an `OR` would read all orders. */
const takeOver = (unconfirmed: string) => `
  UPDATE orders SET owner = ?1 WHERE ${LEFT_BEHIND} AND ${FOLLOWS_CHANNEL} AND no IN (
    SELECT o.no FROM orders o WHERE o.status IN ('pending', 'executing')
    UNION ALL SELECT order_no FROM authorizations WHERE state = 'reserved'
    UNION ALL SELECT order_no FROM authorizations WHERE unreceived = 1
    UNION ALL SELECT order_no FROM authorizations WHERE look_at IS NOT NULL
    UNION ALL SELECT order_no FROM authorizations WHERE ${unconfirmed} AND created_at >= ?2)`
const TAKE_OVER = takeOver("state = 'spent' AND confirmed_at IS NULL")
/** Without an RPC only the seller can say more, and it is asked for some days. */
const TAKE_OVER_UNNAMED = takeOver("state = 'spent' AND confirmed_at IS NULL AND tx_hash IS NULL")
const UNNAMED_MS = 7 * 24 * 60 * 60 * 1000

/** Takes over the orders and channels of processes that have ended. @returns how many rows each statement changed */
export function takeOverPurchases(process: string, now: UnixMs, hasChain: boolean): Query<number[]> {
  const owned = hasChain ? run(TAKE_OVER, process, 0) : run(TAKE_OVER_UNNAMED, process, now - UNNAMED_MS)
  // First: what may have been bought must not pass for an order that a crash has interrupted, whose key becomes free.
  const ended = [endOrdersOfBackup(now), endUnattended(now), endOrdersOfRuns(now)]
  return together(...ended, run(REOPEN, now), takeOverChannels(process), owned)
}
