import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'
import { WORK_DONE } from './payment-row.ts'

/** Work that was never paid: sums by slot of time, and counts by payer at fault. */
export type StoredLosses = {
  slots: { at: UnixMs; amount: bigint }[]
  /** Latest last. */
  payers: { payer: string; peerId: string; count: number; at: UnixMs }[]
}

/** A payment that is given up was accepted at most this long before. */
const LOSING_MAX_MS = 3 * 24 * 60 * 60 * 1000

const LOST = `state = 'unsettled' AND created_at >= ? AND updated_at >= ? AND ${WORK_DONE}`
const BY_TIME = `
  SELECT (updated_at / ?) * ? AS at, CAST(sum(amount) AS TEXT) AS amount FROM payments WHERE ${LOST} GROUP BY 1`
const BY_PAYER = `
  SELECT payer, peer_id AS peerId, count(*) AS count, max(updated_at) AS at FROM payments WHERE ${LOST} AND blamed = 1
  GROUP BY payer ORDER BY max(updated_at) DESC LIMIT ?`

export function storedLosses(
  database: Database,
  since: UnixMs,
  { slotMs, payersMax }: { slotMs: number; payersMax: number },
): StoredLosses {
  const created = since - LOSING_MAX_MS
  const slots = database.all(BY_TIME, slotMs, slotMs, created, since)
  const payers = database.all(BY_PAYER, created, since, payersMax)
  return {
    // Sums are read as text: they can exceed a JavaScript number.
    slots: (slots as { at: number; amount: string }[]).map(({ at, amount }) => ({ at, amount: BigInt(amount) })),
    payers: (payers as StoredLosses['payers']).reverse(),
  }
}
