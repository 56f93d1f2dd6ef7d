import * as z from 'zod'

/** How many items a page of a list holds at most, and unless the caller says otherwise. */
export const PAGE_ITEMS_MAX = 200
export const PAGE_ITEMS = 50
/** A page ends early when its items have this many characters: tasks and results can be megabytes each. */
export const PAGE_LENGTH_MAX = 4 * 1024 * 1024
/** How long an answer may wait for something to end, in seconds. */
export const WAIT_SECONDS_MAX = 60

/** A part of a list. `next` is the cursor of the part that follows; undefined: this is the last one. */
export type Page<T> = { items: T[]; next: string | undefined }

export const Limit = z.coerce
  .number()
  .int()
  .min(1)
  .max(PAGE_ITEMS_MAX)
  .default(PAGE_ITEMS)
  .meta({ description: `how many to answer at most; the Link header leads to the next ones` })

/** Cursors of lists whose items are numbered. */
export const NumberCursor = z
  .string()
  .regex(/^[1-9][0-9]{0,15}$/, 'is no cursor of this list: follow the Link header of the page before')
  .meta({ description: 'where to go on, as the Link header of the page before has it' })

/** For reads of something that ends by itself. */
export const WaitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .int()
    .min(0)
    .max(WAIT_SECONDS_MAX)
    .default(0)
    .meta({ description: 'answer as soon as it has ended, or after this many seconds' }),
})
