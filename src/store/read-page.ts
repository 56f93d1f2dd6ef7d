import { PAGE_LENGTH_MAX } from '../schema/limits.ts'
import type { Page } from '../schema/page.ts'

/** Reads rows until the page is full. A page ends early if its texts are long. */
export function readPage<Row, T>(
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
