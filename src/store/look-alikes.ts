import type { UnixMs } from '../lib/clock.ts'
import { Pace } from '../lib/pace.ts'
import { isNear, soughtKeys, storedKeys } from '../lib/text/near-keys.ts'
import { skeletonOf } from '../lib/text/skeleton.ts'
import type { Database } from './database.ts'
import { type Entry, GET_ENTRY, PUT_ENTRY, REMOVE_ENTRY } from './entries.ts'

/**
 * Finds listings that resemble an older listing of another seller.
 *
 * Comparing is the most expensive work on a listing after its signature. So it runs in the background, in the order of
 * meeting, and can stop at any point: two marks store the progress.
 */
export interface LookAlikes {
  /** Compares some listings in one transaction. @returns true if some are left */
  step(): Promise<boolean>
  /** Call it inside a transaction, with listings that are forgotten. */
  remove(forgotten: readonly NamedListing[]): void
  /** Call it inside a transaction. All names are then read and compared again. */
  reset(): void
}

export type NamedListing = { number: number; skeleton: string }
type MetName = NamedListing & { name: string; sellerId: string; firstSeen: UnixMs; alike: number | null }
/** The last listing with keys, and the last compared listing, both by number. */
type Progress = { keyed: number; compared: number }

/** Keys are written for many listings at once, in key order. Otherwise each key would touch its own page. */
const KEYED_AT_ONCE = 250
/** About 3 ms of work. */
const COMPARED_AT_ONCE = 50
/** Listings compared with a name, of all that share a key with it: the listings known longest. */
const SHARING_MAX = 16

const PARTY = 'names'

const PROGRESS_KEY = 'listings.names'
const MET =
  'SELECT number, name, skeleton, seller_id AS sellerId, first_seen AS firstSeen, alike FROM met_listings AS met'
const AFTER = `${MET} WHERE number > ? ORDER BY number LIMIT ?`
const UP_TO = `${MET} WHERE number > ? AND number <= ? ORDER BY number LIMIT ?`
const THESE = `${MET} WHERE number IN (SELECT value FROM json_each(?))`
const WIDOWED = `${MET} WHERE alike = 0 LIMIT ?`
const ANY_WIDOWED = 'SELECT 1 FROM met_listings WHERE alike = 0 LIMIT 1'
const LAST = 'SELECT max(number) AS number FROM met_listings'
const SET_SKELETON = 'UPDATE met_listings SET skeleton = ? WHERE number = ?'
const SET_ALIKE = 'UPDATE met_listings SET alike = ? WHERE number = ?'
/** No listing has the number 0: it marks listings to compare again. */
const WIDOW = 'UPDATE met_listings SET alike = 0 WHERE alike = ?'
const PUT_KEYS = `
  INSERT OR IGNORE INTO name_keys (key, number) SELECT value ->> 0, value ->> 1 FROM json_each(?)`
const REMOVE_KEYS = 'DELETE FROM name_keys WHERE number = ? AND key IN (SELECT value FROM json_each(?))'
const SHARING = `
  SELECT sought.key AS place, found.value AS number FROM json_each(?) AS sought, json_each((
    SELECT json_group_array(number) FROM
      (SELECT number FROM name_keys WHERE key = sought.value ORDER BY number LIMIT ${SHARING_MAX}))) AS found`

/** @param pace the pace for comparing listings of others */
export function createLookAlikes(database: Database, pace = new Pace()): LookAlikes {
  const { all, one, run } = database

  function progress(): Progress {
    const row = one<Entry>(GET_ENTRY, PROGRESS_KEY)
    return row === undefined ? { keyed: 0, compared: 0 } : (JSON.parse(row.value) as Progress)
  }

  function setProgress(reached: Progress): void {
    run(PUT_ENTRY, PROGRESS_KEY, JSON.stringify(reached))
  }

  /** @returns the number of the last listing that received its keys */
  function putKeys(after: number): number {
    const met = all<MetName>(AFTER, after, KEYED_AT_ONCE)
    const keys = met.flatMap(({ number, name, skeleton: before }) => {
      const skeleton = skeletonOf(name)
      if (skeleton !== before) run(SET_SKELETON, skeleton, number)
      return storedKeys(skeleton).map((key) => [key, number] as const)
    })
    run(PUT_KEYS, JSON.stringify(keys.sort(([a], [b]) => a - b)))
    return met.at(-1)?.number ?? after
  }

  /**
   * If two listings were first seen at the same time, neither is known to be older. Each is then noted at the other,
   * unless it already has a note.
   */
  function compare(met: readonly MetName[]): void {
    const sought = met
      .flatMap((one) => soughtKeys(one.skeleton).map((key) => ({ key, one })))
      .sort((a, b) => a.key - b.key)
    const sharing = all<{ place: number; number: number }>(SHARING, JSON.stringify(sought.map(({ key }) => key)))
    const olderOf = new Map<MetName, Set<number>>(met.map((one) => [one, new Set()]))
    for (const { place, number } of sharing) {
      const { one } = sought[place]!
      if (number < one.number) olderOf.get(one)!.add(number)
    }
    const numbers = [...new Set([...olderOf.values()].flatMap((older) => [...older]))]
    const others = new Map(all<MetName>(THESE, JSON.stringify(numbers)).map((other) => [other.number, other]))
    for (const [one, older] of olderOf) {
      const near = [...older]
        .sort((a, b) => a - b)
        .flatMap((number) => others.get(number) ?? [])
        .filter((other) => other.sellerId !== one.sellerId && isNear(one.skeleton, other.skeleton))
      run(SET_ALIKE, near[0]?.number ?? null, one.number)
      for (const other of near) {
        if (other.firstSeen !== one.firstSeen || other.alike !== null) continue
        other.alike = one.number
        run(SET_ALIKE, one.number, other.number)
      }
    }
  }

  function takeStep(): boolean {
    const { keyed, compared } = progress()
    const widowed = all<MetName>(WIDOWED, COMPARED_AT_ONCE)
    if (widowed.length > 0) compare(widowed)
    else if (compared < keyed) {
      const met = all<MetName>(UP_TO, compared, keyed, COMPARED_AT_ONCE)
      compare(met)
      setProgress({ keyed, compared: met.at(-1)?.number ?? keyed })
    } else {
      const last = putKeys(keyed)
      if (last > keyed) setProgress({ keyed: last, compared })
    }
    return isBehind()
  }

  function isBehind(): boolean {
    const last = one<{ number: number | null }>(LAST)?.number ?? 0
    return progress().compared < last || one(ANY_WIDOWED) !== undefined
  }

  return {
    async step() {
      let isLeft = isBehind()
      if (!isLeft) return false
      await pace.count(PARTY, async () => {
        let from = 0
        isLeft = await database.write(() => {
          from = performance.now()
          return takeStep()
        })
        return performance.now() - from
      })
      return isLeft
    },

    remove(forgotten) {
      for (const { number, skeleton } of forgotten) {
        run(REMOVE_KEYS, number, JSON.stringify(storedKeys(skeleton)))
        run(WIDOW, number)
      }
    },

    reset() {
      run('DELETE FROM name_keys')
      run('UPDATE met_listings SET alike = NULL')
      run(REMOVE_ENTRY, PROGRESS_KEY)
    },
  }
}
