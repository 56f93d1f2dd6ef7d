import type { UnixMs } from '../lib/clock.ts'
import type { Hex } from '../schema/primitives.ts'
import { all, type Query, type Value } from './query.ts'

/** Where a channel stands in a list: newest first, by id where the times are equal. */
export type ChannelPlace = { createdAt: UnixMs; id: Hex }

/** The first channels of a table, or those after a place in it. */
export function channelPage<Row>(
  table: 'buyer_channels' | 'seller_channels',
  limit: number,
  before: { createdAt: UnixMs; id: Value } | undefined,
): Query<Row[]> {
  const order = 'ORDER BY created_at DESC, id DESC LIMIT'
  if (before === undefined) return all<Row>(`SELECT * FROM ${table} ${order} ?`, limit)
  const { createdAt, id } = before
  return all<Row>(
    `SELECT * FROM ${table} WHERE created_at < ?1 OR (created_at = ?1 AND id < ?2) ${order} ?3`,
    ...[createdAt, id, limit],
  )
}
