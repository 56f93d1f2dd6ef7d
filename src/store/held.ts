import type { UnixMs } from '../lib/clock.ts'
import type { Database } from './database.ts'

/** The chain's clock may lag behind ours: an authorization may still settle this long after its window. */
const MARGIN_MS = 60_000

const HELD = `
  SELECT coalesce(sum(amount), 0) AS held FROM authorizations
  WHERE network = ? AND (state = 'reserved' OR (state = 'spent' AND confirmed_at IS NULL AND valid_before_s * 1000 > ?))`

/**
 * What open authorizations may still take from the wallet, in atomic units: signed, and not shown by the chain (D42).
 *
 * An authorization with an unknown outcome counts even if our clock says its window has ended: the chain decides when
 * it is over (T16).
 */
export function heldByAuthorizations(database: Database, network: string, now: UnixMs): bigint {
  const row = database.prepare(HELD).get(network, now - MARGIN_MS) as { held: number }
  return BigInt(row.held)
}
