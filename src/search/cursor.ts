import { createHash } from 'node:crypto'
import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'

const Count = z.int().min(0)

/**
 * Where a search goes on. It names a place in an order, not a number of listings, so what comes or goes in the meantime
 * shifts nothing: a page never repeats what stood before it.
 */
const Place = z.union([
  z.strictObject({
    order: z.literal('rank'),
    /** Which way to take what was typed (search-words.ts). */
    reading: Count,
    /** The sections are those of a query that finds very many. */
    split: z.boolean(),
    section: Count,
    /** The block begins after this number. */
    after: Count,
    /** Of the listing shown last, if any of the block was. */
    last: z.strictObject({ score: z.number(), number: Count }).optional(),
    /** When the first page was asked for: freshness is measured from there, so that the order stands still. */
    at: Count,
  }),
  /** So many of those that were imported have been shown: they stand before all others. */
  z.strictObject({ order: z.literal('imported'), shown: Count }),
  z.strictObject({ order: z.enum(['price', 'newest']), reading: Count, price: Count, number: Count }),
])
export type SearchPlace = z.infer<typeof Place>
export type RankPlace = Extract<SearchPlace, { order: 'rank' }>

const DIGEST_BYTES = 9

/**
 * A place as text for a URL. `query` is everything that decides the order: a cursor serves the query it came from and no
 * other. The digest finds damage and mix-ups. It keeps no secret, and needs none: whatever a cursor says, it only leads
 * to a place in a public list.
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function digest(json: string, query: string): Buffer {
  return createHash('sha256').update(`${query}\n${json}`).digest().subarray(0, DIGEST_BYTES)
}

function invalidCursor(): CodedError<'CURSOR_INVALID'> {
  const fix = 'take it from the Link header of the page before and change nothing else of the query'
  return new CodedError('CURSOR_INVALID', `the cursor is damaged or belongs to another query: ${fix}`)
}
