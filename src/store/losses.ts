import type { UnixMs } from '../lib/clock.ts'
import { WORK_DONE } from './payment-row.ts'
import { all, type Query, together } from './query.ts'

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
  SELECT updated_at / CAST(? AS INTEGER) AS slot, CAST(sum(amount) AS TEXT) AS amount FROM payments WHERE ${LOST}
  GROUP BY 1`
/** Each payer with the peer of its latest loss. */
const BY_PAYER = `
  SELECT payer, peer_id, losses, at
  FROM (
    SELECT payer, peer_id, updated_at AS at, count(*) OVER (PARTITION BY lower(payer)) AS losses,
      row_number() OVER (PARTITION BY lower(payer) ORDER BY updated_at DESC, no DESC) AS place
    FROM payments WHERE ${LOST} AND blamed = 1) AS lost
  WHERE place = 1 ORDER BY at DESC, payer LIMIT ?`

type SlotRow = { slot: number; amount: string }
type PayerRow = { payer: string; peer_id: string; losses: number; at: number }

export function storedLosses(
  since: UnixMs,
  { slotMs, payersMax }: { slotMs: number; payersMax: number },
): Query<StoredLosses> {
  const created = since - LOSING_MAX_MS
  return together(
    all<SlotRow>(BY_TIME, slotMs, created, since),
    all<PayerRow>(BY_PAYER, created, since, payersMax),
  ).map(([slots, payers]) => ({
    // Sums are read as text: they can exceed a JavaScript number.
    slots: slots.map(({ slot, amount }) => ({ at: slot * slotMs, amount: BigInt(amount) })),
    payers: payers.map(({ payer, peer_id: peerId, losses: count, at }) => ({ payer, peerId, count, at })).reverse(),
  }))
}
