import { PAGE_LENGTH_MAX } from '../schema/limits.ts'
import type { Page } from '../schema/page.ts'
import { type Query, steps } from './query.ts'

/** Reads rows until the page is full. A page ends early if its texts are long. */
function readPage<Row, T>(
  rows: Iterable<Row>,
  limit: number,
  read: (row: Row) => { item: T; no: number; length: number },
): Page<T> {
  const items: T[] = []
  let length = 0
  let last = 0
  for (const row of rows) {
    const { item, no, length: more } = read(row)
    length += more
    if (items.length === limit || (items.length > 0 && length > PAGE_LENGTH_MAX)) return { items, next: String(last) }
    items.push(item)
    last = no
  }
  return { items, next: undefined }
}

/** A row of the page: its number, and the length of its texts. */
export type RowLength = { no: number; length: number }

/**
 * Reads a page of rows that may be long. Asks for the lengths first, so that no row is read beyond the page.
 *
 * @param rows reads the first rows, in the order of their lengths
 */
export function readLongPage<T>(
  limit: number,
  lengths: (limit: number) => Query<RowLength[]>,
  rows: (limit: number) => Query<T[]>,
): Query<Page<T>> {
  return steps(function* () {
    const known = yield* lengths(limit + 1)
    const { items, next } = readPage(known, limit, ({ no, length }) => ({ item: no, no, length }))
    return { items: items.length === 0 ? [] : yield* rows(items.length), next }
  })
}
