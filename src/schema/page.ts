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
  .meta({ description: `how many to answer at most; the Link header leads to the next ones` })

const Moment = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text))

/** Search fields for lists of past activity. */
export const seekFields = {
  q: z
    .string()
    .trim()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: 'only those in whose texts this stands; of a long text its beginning is looked at' }),
  since: Moment.optional().meta({ description: 'only those from this moment on' }),
  until: Moment.optional().meta({ description: 'only those before this moment' }),
} as const
const SeekQuery = z.object(seekFields)

/** A page of a search may be shorter than its limit, even empty, and still have a next page. */
export function soughtOf({ q, since, until }: z.output<typeof SeekQuery>) {
  return { text: q, since, until }
}

/** Cursors of lists whose items are numbered. */
export const NumberCursor = z
  .string()
  .regex(/^[1-9][0-9]{0,15}$/, 'is no cursor of this list: follow the Link header of the page before')
  .meta({ description: 'where to go on, as the Link header of the page before has it' })

/** For reads that can wait for something to end. */
export const WaitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .int()
    .min(0)
    .max(WAIT_SECONDS_MAX)
    .default(0)
    .meta({ description: 'answer as soon as it has ended, or after this many seconds' }),
})
