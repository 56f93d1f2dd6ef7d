import type { UnixMs } from '../lib/clock.ts'
import { textKey } from '../lib/text/near-keys.ts'
import { skeletonOf } from '../lib/text/skeleton.ts'
import type { Database } from './database.ts'
import { type Entry, GET_ENTRY, PUT_ENTRY, REMOVE_ENTRY } from './entries.ts'
import { type IndexedText, indexedText, type ListingFacts } from './listing-text.ts'
import { createLookAlikes, type NamedListing } from './look-alikes.ts'

/** The parts of a listing that search needs. */
export type IndexedListing = {
  id: string
  sellerId: string
  facts: ListingFacts
  updatedAt: UnixMs
  expiresAt: UnixMs
  /** When this node met this version. Becomes `first_seen` with the first version. */
  seenAt: UnixMs
}

/**
 * The write side of search: the text index over the listings on the market, and the memory of listings that this node
 * met, with the time of the first meeting (`met_listings.first_seen`). The memory outlasts a listing for some days. All
 * methods except `forget` and `reset` run inside a transaction of the listings, so that all stay in step.
 */
export interface ListingIndex {
  put(listing: IndexedListing): void
  /** Hides a listing that has left the market or has no searchable parts. */
  hide(id: string): void
  /**
   * Merges recent index entries into the rest, by the amount that this many listings need: 1 ms for four.
   *
   * @returns true if more may be left to merge
   */
  merge(listings: number): boolean
  /** Forgets some listings that left the market long ago. A listing that returns later counts as new. */
  forget(now: UnixMs): Promise<void>
  /** True if this version of the code has built the complete index. */
  isWhole(): boolean
  /** Empties the index. Keeps the order in which listings were met. */
  reset(): Promise<void>
  /** Marks the index as whole. */
  setWhole(): Promise<void>
}

/** How long a listing is remembered after it expired. */
const REMEMBERED_MS = 7 * 24 * 60 * 60 * 1000
/** Pages of the text index merged per listing. With fewer, searches must look into ever more parts. */
const MERGED_PER_LISTING = 8
/** Listings remembered after they left the market. Beyond it the listings met last are dropped first. */
const REMEMBERED_MAX = 100_000
/** Listings forgotten or hidden in one transaction. */
const TIDIED_MAX = 500
/** Transactions per call. A market that falls apart is forgotten over several calls. */
const FORGET_STEPS_MAX = 20
const WORDS_MAX = 100_000
/** Words that this process stored recently and need not store again. */
const FRESH_WORDS_MAX = 20_000

/** Version of the format. Raise it with any change of what is indexed or how: the index is then rebuilt. */
const INDEX_VERSION = '2'
const INDEX_KEY = 'listings.index'

const HELD = 'SELECT number, shown, text_key AS textKey FROM met_listings WHERE id = ?'
const MEET = `
  INSERT INTO met_listings
    (id, seller_id, name, skeleton, first_seen, shown, price, updated_at, expires_at, text_key)
  VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?)`
const UPDATE = `
  UPDATE met_listings SET name = ?, skeleton = ?, shown = 1, price = ?, updated_at = ?, expires_at = ?, text_key = ?
  WHERE number = ?`
const REFRESH = 'UPDATE met_listings SET price = ?, updated_at = ?, expires_at = ? WHERE number = ?'
const PUT_TEXT = 'INSERT OR REPLACE INTO listing_text (rowid, name, tags, description, marks) VALUES (?, ?, ?, ?, ?)'
/** A trigger deletes the text too. */
const HIDE = 'UPDATE met_listings SET shown = 0 WHERE id = ? AND shown = 1'
const HIDE_SOME = `
  UPDATE met_listings SET shown = 0
  WHERE number IN (SELECT number FROM met_listings WHERE shown = 1 LIMIT ${TIDIED_MAX})`
const MERGE = `INSERT INTO listing_text (listing_text, rank) VALUES ('merge', ?)`
const CHANGES = 'SELECT total_changes() AS count'
const COUNT_WORDS = 'SELECT count(*) AS count FROM market_words'
const PUT_WORD = 'INSERT OR IGNORE INTO market_words (initial, length, word) VALUES (?, ?, ?)'
const FORGETTABLE = `
  SELECT number, skeleton FROM met_listings WHERE shown = 0 AND expires_at < ? ORDER BY expires_at LIMIT ${TIDIED_MAX}`
const SURPLUS = `
  SELECT number, skeleton FROM met_listings WHERE shown = 0 ORDER BY number DESC
  LIMIT min(${TIDIED_MAX}, max(0, (SELECT count(*) FROM met_listings WHERE shown = 0) - ${REMEMBERED_MAX}))`
const FORGET = 'DELETE FROM met_listings WHERE number = ?'

type HeldRow = { number: number; shown: number; textKey: number }

export function createListingIndex(database: Database): ListingIndex {
  const names = createLookAlikes(database)
  const freshWords = new Set<string>()
  const { all, one, run } = database

  function putText(number: number, { name, tags, description, marks }: IndexedText): void {
    run(PUT_TEXT, number, name, tags, description, marks)
  }

  /** Beyond the limit the table is emptied. Listings fill it again as they are refreshed. */
  function putWords({ words }: IndexedText): void {
    for (const word of words) {
      if (freshWords.has(word)) continue
      if (freshWords.size >= FRESH_WORDS_MAX) {
        freshWords.clear()
        if (one<{ count: number }>(COUNT_WORDS)!.count > WORDS_MAX) run('DELETE FROM market_words')
      }
      freshWords.add(word)
      run(PUT_WORD, word.slice(0, 1), word.length, word)
    }
  }

  /** @returns the number of rows */
  function forgetRows(rows: readonly NamedListing[]): number {
    for (const { number } of rows) run(FORGET, number)
    names.remove(rows)
    return rows.length
  }

  return {
    put({ id, sellerId, facts, updatedAt, expiresAt, seenAt }) {
      const skeleton = skeletonOf(facts.name)
      const text = indexedText(facts, sellerId, skeleton)
      const key = textKey(`${text.name}\n${text.tags}\n${text.description}\n${text.marks}`)
      const price = Number(facts.price)
      const held = one<HeldRow>(HELD, id)
      putWords(text)
      if (held === undefined) {
        const values = [facts.name, skeleton, seenAt, price, updatedAt, expiresAt, key]
        const { lastInsertRowid } = run(MEET, id, sellerId, ...values)
        putText(Number(lastInsertRowid), text)
      } else if (held.shown === 1 && held.textKey === key) {
        run(REFRESH, price, updatedAt, expiresAt, held.number)
      } else {
        run(UPDATE, facts.name, skeleton, price, updatedAt, expiresAt, key, held.number)
        putText(held.number, text)
      }
    },

    hide: (id) => void run(HIDE, id),

    merge(listings) {
      const changes = () => one<{ count: number }>(CHANGES)!.count
      const before = changes()
      run(MERGE, BigInt(MERGED_PER_LISTING * listings))
      // The command itself counts as one change.
      return changes() - before > 1
    },

    async forget(now) {
      const step = () =>
        forgetRows(all<NamedListing>(FORGETTABLE, now - REMEMBERED_MS)) + forgetRows(all<NamedListing>(SURPLUS))
      for (let steps = 0; steps < FORGET_STEPS_MAX && (await database.write(step)) > 0; steps++) {}
    },

    isWhole: () => one<Entry>(GET_ENTRY, INDEX_KEY)?.value === INDEX_VERSION,

    async reset() {
      freshWords.clear()
      await database.write(() => {
        run(REMOVE_ENTRY, INDEX_KEY)
        run(`INSERT INTO listing_text (listing_text) VALUES ('delete-all')`)
        run('DELETE FROM market_words')
        names.reset()
      })
      while ((await database.write(() => run(HIDE_SOME).changes)) > 0) {}
    },

    setWhole: () => database.writeOne(PUT_ENTRY, INDEX_KEY, INDEX_VERSION),
  }
}
