import { createHash } from 'node:crypto'
import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { parseJson } from '../lib/json.ts'

const Count = z.int().min(0)

/**
 * Where a search continues. It names a position in the order, not a count of listings. Listings that come or go between
 * two pages therefore shift nothing, and no page repeats a listing.
 */
const Place = z.union([
  z.strictObject({
    order: z.literal('rank'),
    /** Index of the reading of the query (query-words.ts). */
    reading: Count,
    /** True if the query finds more than one block, so that the search runs in several sections. */
    split: z.boolean(),
    section: Count,
    /** The block begins after this listing number. */
    after: Count,
    /** The last listing shown from this block, if there is one. */
    last: z.strictObject({ score: z.number(), number: Count }).optional(),
    /** Time of the first page. Freshness is measured from here, so that the order does not change between pages. */
    at: Count,
  }),
  /** Number of imported listings already shown. Imported listings come before all others. */
  z.strictObject({ order: z.literal('imported'), shown: Count }),
  z.strictObject({ order: z.enum(['price', 'newest']), reading: Count, price: Count, number: Count }),
])
export type SearchPlace = z.infer<typeof Place>
export type RankPlace = Extract<SearchPlace, { order: 'rank' }>

const DIGEST_BYTES = 9

/**
 * Encodes a place as text for a URL. `query` is everything that decides the order, so a cursor fits only the query it
 * came from. The digest detects damaged and mixed-up cursors. It is not a secret: a forged cursor only leads to another
 * place in a public list.
 */
export function encodeCursor(place: SearchPlace, query: string): string {
  const json = JSON.stringify(place)
  return Buffer.concat([digest(json, query), Buffer.from(json)]).toString('base64url')
}

/** @throws CodedError `CURSOR_INVALID` */
export function decodeCursor(cursor: string, query: string): SearchPlace {
  const bytes = Buffer.from(cursor, 'base64url')
  const json = bytes.subarray(DIGEST_BYTES).toString()
  if (bytes.toString('base64url') !== cursor || !digest(json, query).equals(bytes.subarray(0, DIGEST_BYTES))) {
    throw invalidCursor()
  }
  const place = Place.safeParse(parseJson(json))
  if (!place.success) throw invalidCursor()
  return place.data
}

function digest(json: string, query: string): Buffer {
  return createHash('sha256').update(`${query}\n${json}`).digest().subarray(0, DIGEST_BYTES)
}

function invalidCursor(): CodedError<'CURSOR_INVALID'> {
  const fix = 'take it from the Link header of the page before and change nothing else of the query'
  return new CodedError('CURSOR_INVALID', `the cursor is damaged or belongs to another query: ${fix}`)
}
