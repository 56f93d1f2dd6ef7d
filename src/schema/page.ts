import * as z from 'zod'
import { PAGE_ITEMS, PAGE_ITEMS_MAX, WAIT_SECONDS_MAX } from './limits.ts'

/** A part of a list. `next` is the cursor of the next part; undefined: this is the last part. */
export type Page<T> = { items: T[]; next: string | undefined }

export const Limit = z.coerce
  .number()
  .int()
  .min(1)
  .max(PAGE_ITEMS_MAX)
  .default(PAGE_ITEMS)
  .meta({ description: `largest number of entries to return; the Link header leads to the next page` })

const Moment = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text))

/** A cursor of a list, as its Link header gives it. */
export function cursorOf(pattern: RegExp) {
  return z
    .string()
    .regex(pattern, 'is not a cursor of this list: use the Link header of the previous page')
    .meta({ description: 'cursor of the next page, from the Link header of the previous page' })
}

/** Cursors of lists whose items are numbered. */
export const NumberCursor = cursorOf(/^[1-9][0-9]{0,15}$/)

/** Parameters of a search in a list of past activity. */
export const seekFields = {
  q: z
    .string()
    .trim()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: 'only entries whose texts contain this text; only the start of a long text is searched' }),
  since: Moment.optional().meta({ description: 'only entries from this time on' }),
  until: Moment.optional().meta({ description: 'only entries before this time' }),
  limit: Limit,
  cursor: NumberCursor.optional(),
} as const
const SeekQuery = z.object(seekFields)

/** A page of a search may be shorter than its limit, even empty, and still have a next page. */
export function soughtOf({ q, since, until }: z.output<typeof SeekQuery>) {
  return { text: q, since, until }
}

/** For reads that can wait for something to end. */
export const WaitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .int()
    .min(0)
    .max(WAIT_SECONDS_MAX)
    .default(0)
    .meta({ description: 'wait for the end, but at most this many seconds' }),
})
