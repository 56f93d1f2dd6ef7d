import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LISTING_SKEW_MS, LISTING_TTL_MS, type ListingRecord } from '../schema/listing.ts'
import { isShown, keptUntil, type ListingEntry, ListingSet } from './set.ts'

const START = Date.UTC(2026, 0, 1)
const KEPT_MS = LISTING_TTL_MS + LISTING_SKEW_MS
const STEP = KEPT_MS / 8

type Draft = { seller: string; name: string; version: number; variant?: number; state?: ListingRecord['state'] }

function entryOf({ seller, name, version, variant = 0, state = 'active' }: Draft): ListingEntry {
  const record: ListingRecord = {
    v: 1,
    id: `${seller}/${name}`,
    seller_id: seller,
    state,
    version,
    updated_at: version,
    expires_at: version + LISTING_TTL_MS,
    name,
    description: `variant ${variant}`,
    price_atomic: 0n,
    tags: [],
    protocols: [],
    network: 'eip155:84532',
    asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    pay_to: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    addrs: [],
  }
  const hash = createHash('sha256').update([seller, name, version, variant, state].join('\n')).digest('hex')
  return { record, hash, bytes: 100 }
}

const roomy = { listingsMax: 1000, bytesMax: 1_000_000, perSellerMax: 3 }

function setOf(entries: Iterable<ListingEntry>, now: number = START): ListingSet {
  const set = new ListingSet(roomy)
  for (const entry of entries) set.merge(entry, now)
  return set
}

/** Merges all that `from` holds, as a full exchange does. */
function exchange(from: ListingSet, into: ListingSet, now: number = START): void {
  for (const entry of [...from.entries()]) into.merge(entry, now)
}

const stateOf = (set: ListingSet) =>
  [...set.entries()].map(({ record, hash }) => `${record.id} ${record.version} ${hash}`).sort()

/** The definition, computed at once: the highest version of each listing, then the highest three per seller. */
function expectedState(entries: readonly ListingEntry[], now: number): string[] {
  const rank = (a: ListingEntry, b: ListingEntry) =>
    b.record.version - a.record.version || (a.hash < b.hash ? 1 : a.hash > b.hash ? -1 : 0)
  const best = new Map<string, ListingEntry>()
  for (const entry of entries.filter(({ record }) => now < keptUntil(record)).toSorted(rank)) {
    if (!best.has(entry.record.id)) best.set(entry.record.id, entry)
  }
  const perSeller = Map.groupBy(best.values(), ({ record }) => record.seller_id)
  const kept = [...perSeller.values()].flatMap((of) => of.toSorted(rank).slice(0, roomy.perSellerMax))
  return kept.map(({ record, hash }) => `${record.id} ${record.version} ${hash}`).sort()
}

const draft = fc.record({
  seller: fc.constantFrom('a', 'b'),
  name: fc.constantFrom('p', 'q', 'r', 's', 't'),
  version: fc.integer({ min: -10, max: 2 }).map((steps) => START + steps * STEP),
  variant: fc.integer({ min: 0, max: 2 }),
  state: fc.constantFrom('active' as const, 'delisted' as const),
})
const entries = fc.array(draft.map(entryOf), { maxLength: 40 })

test('merge is commutative, associative and idempotent (property)', () => {
  fc.assert(
    fc.property(entries, entries, entries, (a, b, c) => {
      const ab = setOf(a)
      exchange(setOf(b), ab)
      const ba = setOf(b)
      exchange(setOf(a), ba)
      expect(stateOf(ab)).toEqual(stateOf(ba))

      const abThenC = ab
      exchange(setOf(c), abThenC)
      const bc = setOf(b)
      exchange(setOf(c), bc)
      const aThenBc = setOf(a)
      exchange(bc, aThenBc)
      expect(stateOf(abThenC)).toEqual(stateOf(aThenBc))

      const before = stateOf(abThenC)
      exchange(abThenC, abThenC)
      expect(stateOf(abThenC)).toEqual(before)
      expect(before).toEqual(expectedState([...a, ...b, ...c], START))
    }),
  )
})

test('any order, with duplicates, ends in the same state (property)', () => {
  const shuffled = entries.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray([...list, ...list], { minLength: list.length * 2 })),
  )
  fc.assert(
    fc.property(shuffled, ([list, mixed]) => {
      const one = setOf(list)
      const other = setOf(mixed)
      expect(stateOf(other)).toEqual(stateOf(one))
      expect(other.bytes).toBe(one.bytes)
    }),
  )
})

test('replicas that lost messages agree after full exchanges, whenever each has purged (property)', () => {
  const deliveries = fc.array(
    fc.record({
      to: fc.integer({ min: 0, max: 3 }),
      entry: draft.map(entryOf),
      elapsed: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 1),
      purge: fc.boolean(),
    }),
    { maxLength: 60 },
  )
  fc.assert(
    fc.property(deliveries, (list) => {
      const replicas = Array.from({ length: 4 }, () => new ListingSet(roomy))
      let now = START
      for (const { to, entry, elapsed, purge } of list) {
        now += elapsed * STEP
        replicas[to]!.merge(entry, now)
        if (purge) replicas[to]!.purge(now)
      }
      for (const replica of replicas) replica.purge(now)
      // A ring, twice: what any one knew has then been offered to every other.
      for (let hop = 0; hop < 8; hop++) exchange(replicas[hop % 4]!, replicas[(hop + 1) % 4]!, now)
      const agreed = expectedState(
        list.map(({ entry }) => entry),
        now,
      )
      for (const replica of replicas) expect(stateOf(replica)).toEqual(agreed)
    }),
  )
})

test('the higher version holds, no matter which comes first', () => {
  const older = entryOf({ seller: 'a', name: 'p', version: START })
  const newer = entryOf({ seller: 'a', name: 'p', version: START + 1 })
  const set = setOf([older])
  expect(set.merge(newer, START).outcome).toBe('replaced')
  expect(set.merge(older, START).outcome).toBe('older')
  expect(set.merge(newer, START).outcome).toBe('known')
  expect(set.get('a/p')).toBe(newer)
})

test('T3 the larger hash holds everywhere if one version has two contents', () => {
  const [small, large] = [1, 2, 3]
    .map((variant) => entryOf({ seller: 'a', name: 'p', version: START, variant }))
    .sort((a, b) => (a.hash < b.hash ? -1 : 1)) as [ListingEntry, ListingEntry]
  expect(setOf([small, large]).get('a/p')).toBe(large)
  expect(setOf([large, small]).get('a/p')).toBe(large)
})

test('D9 a tombstone hides the listing and outlives every version it can shadow', () => {
  const active = entryOf({ seller: 'a', name: 'p', version: START })
  const tombstone = entryOf({ seller: 'a', name: 'p', version: START + 1, state: 'delisted' })
  const set = setOf([active, tombstone])
  expect(isShown(set.get('a/p')!.record, START)).toBe(false)

  const lastMoment = keptUntil(active.record)
  set.purge(lastMoment)
  expect(set.merge(active, lastMoment - 1).outcome).toBe('older')
  expect(set.purge(keptUntil(tombstone.record))).toEqual([tombstone])
  expect(set.merge(active, keptUntil(tombstone.record)).outcome).toBe('expired')
  expect(set.size).toBe(0)
})

test('an expired version shadows older ones that claim to live longer', () => {
  const long = entryOf({ seller: 'a', name: 'p', version: START })
  const short = entryOf({ seller: 'a', name: 'p', version: START + 1 })
  short.record.expires_at = START + 1000
  const set = setOf([short])
  set.purge(START + 2000)
  expect(isShown(set.get('a/p')!.record, START + 2000)).toBe(false)
  expect(set.merge(long, START + 2000).outcome).toBe('older')
})

test('T19 a purged version leaves nothing behind', () => {
  const set = setOf([
    entryOf({ seller: 'a', name: 'p', version: START }),
    entryOf({ seller: 'b', name: 'p', version: START + 5 }),
  ])
  set.purge(START + KEPT_MS)
  expect(stateOf(set)).toHaveLength(1)
  expect(set.bytes).toBe(100)
  set.purge(START + KEPT_MS + 5)
  expect([set.size, set.bytes]).toEqual([0, 0])
  expect(set.entriesOf('a')).toEqual([])
})

test('T3 a seller keeps its newest listings and no more than its share', () => {
  const set = setOf(['p', 'q', 'r'].map((name, age) => entryOf({ seller: 'a', name, version: START - age })))
  expect(set.merge(entryOf({ seller: 'a', name: 's', version: START - 9 }), START).outcome).toBe('seller-full')
  const merged = set.merge(entryOf({ seller: 'a', name: 't', version: START + 1 }), START)
  expect(merged.outcome).toBe('added')
  expect(merged.evicted?.record.id).toBe('a/r')
  expect(set.entriesOf('a').map(({ record }) => record.id)).toEqual(['a/p', 'a/q', 'a/t'])
})

test('T3 a full set refuses unknown listings, and takes newer versions of known ones and all of its own', () => {
  const set = new ListingSet({ listingsMax: 2, bytesMax: 250, ownSellerId: 'me' })
  set.merge(entryOf({ seller: 'a', name: 'p', version: START }), START)
  set.merge(entryOf({ seller: 'b', name: 'p', version: START }), START)
  expect(set.merge(entryOf({ seller: 'c', name: 'p', version: START + 9 }), START).outcome).toBe('full')
  expect(set.merge(entryOf({ seller: 'a', name: 'p', version: START + 1 }), START).outcome).toBe('replaced')
  const grown = { ...entryOf({ seller: 'a', name: 'p', version: START + 2 }), bytes: 151 }
  expect(set.merge(grown, START).outcome).toBe('full')
  expect(set.merge({ ...grown, bytes: 150 }, START).outcome).toBe('replaced')
  expect(set.merge(entryOf({ seller: 'me', name: 'p', version: START }), START).outcome).toBe('added')
  expect(set.bytes).toBe(350)
})

test('T19 a set is full by the number of its listings as well, however small they are', () => {
  const set = new ListingSet({ listingsMax: 2, bytesMax: 10_000 })
  for (const seller of ['a', 'b']) set.merge(entryOf({ seller, name: 'p', version: START }), START)
  expect(set.merge(entryOf({ seller: 'c', name: 'p', version: START + 9 }), START).outcome).toBe('full')
  expect(set.merge(entryOf({ seller: 'a', name: 'p', version: START + 1 }), START).outcome).toBe('replaced')
  expect(set.size).toBe(2)
})
