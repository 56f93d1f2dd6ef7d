import { expect, test } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { ListingRoom } from './room.ts'
import { type ListingEntry, ListingSet } from './set.ts'

const NOW = 1_700_000_000_000
const HOUR_MS = 60 * 60 * 1000

type Told = { from?: string; site?: string; bytes?: number; seller?: string; version?: number }

function entry(id: string, { from, site, bytes = 100, seller = `seller of ${id}`, version = NOW }: Told = {}) {
  const record = { id, seller_id: seller, state: 'active' as const, version, updated_at: version }
  return { record: { ...record, expires_at: NOW + HOUR_MS }, hash: 'aa', bytes, from, site }
}

function roomFor(listingsMax: number, { called = [] as string[], bytesMax = 1_000_000 } = {}) {
  const set = new ListingSet({ listingsMax, bytesMax })
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) }
  const deps = {
    set,
    logger,
    isPinned: ({ record }: ListingEntry) => called.includes(record.id),
  }
  const room = new ListingRoom({ listingsMax, bytesMax }, deps)
  /** Answers what left for it, or undefined where it was refused. */
  function offer(listing: ListingEntry): string[] | undefined {
    const held = set.get(listing.record.id)
    if (!room.fits(listing, held) || !room.hasPlace(listing, NOW)) return undefined
    const left = room.makePlace(listing, NOW)
    if (!['added', 'replaced'].includes(set.merge(listing, NOW).outcome))
      throw new Error('there was no place after all')
    if (held !== undefined) room.remove(held)
    room.add(listing)
    return left.map(({ record }) => record.id)
  }
  return { set, offer, warnings }
}

test('T29 two peers of one site fill half of the room together', () => {
  const { set, offer } = roomFor(10)
  for (let n = 0; n < 10; n++) offer(entry(`${n}`, { from: `peer ${n % 2}`, site: '192.0.2.1' }))
  expect(set.size).toBe(5)
  expect(offer(entry('other', { from: 'peer 0', site: '192.0.2.2' }))).toEqual([])
})

test('T29 a newcomer in a full room replaces a listing of the site that holds most', () => {
  const { set, offer } = roomFor(10)
  for (const site of ['192.0.2.1', '192.0.2.2']) {
    for (let n = 0; n < 5; n++) offer(entry(`${site} ${n}`, { from: `peer at ${site}`, site }))
  }
  expect(set.size).toBe(10)
  expect(offer(entry('a', { from: 'stranger', site: '198.51.100.1' }))).toEqual(['192.0.2.1 4'])
  expect(offer(entry('b', { from: 'stranger', site: '198.51.100.1' }))).toEqual(['192.0.2.2 4'])
  expect(offer(entry('c', { from: 'stranger', site: '198.51.100.1' }))).toEqual(['192.0.2.1 3'])
  // Now each holds its part: nobody gains by telling more.
  expect(offer(entry('d', { from: 'stranger', site: '198.51.100.1' }))).toBeUndefined()
  expect(set.size).toBe(10)
})

test('T29 an agent that this node has called stays, and the largest of the latest listings leaves', () => {
  const { offer } = roomFor(6, { called: ['called'] })
  const flood = { from: 'flooder', site: '192.0.2.1' }
  offer(entry('old', { ...flood, bytes: 150 }))
  offer(entry('large', { ...flood, bytes: 900 }))
  offer(entry('called', { ...flood, bytes: 2000 }))
  for (let n = 0; n < 3; n++) offer(entry(`other ${n}`, { from: `peer ${n}`, site: `192.0.2.${n + 2}` }))
  expect(offer(entry('new', { from: 'newcomer', site: '198.51.100.1' }))).toEqual(['large'])
})

test('a large listing makes several small ones leave, and a version that grows does not push itself out', () => {
  const { set, offer } = roomFor(100, { bytesMax: 1000 })
  for (let n = 0; n < 5; n++) offer(entry(`a${n}`, { from: 'a', site: '192.0.2.1' }))
  for (let n = 0; n < 5; n++) offer(entry(`b${n}`, { from: 'b', site: '192.0.2.2' }))
  expect(offer(entry('c', { from: 'c', site: '192.0.2.3', bytes: 200 }))).toEqual(['a4', 'b4'])
  const grown = offer(entry('c', { from: 'c', site: '192.0.2.3', bytes: 290, version: NOW + 1 }))
  expect(grown).toEqual(['a3'])
  expect(set.bytes).toBeLessThanOrEqual(1000)
})

test('T19 T20 the operator is warned once when four fifths of the room are in use', () => {
  const { offer, warnings } = roomFor(10)
  for (let n = 0; n < 7; n++) offer(entry(`${n}`, { from: `${n}`, site: `192.0.2.${n}` }))
  expect(warnings).toEqual([])
  for (let n = 7; n < 10; n++) offer(entry(`${n}`, { from: `${n}`, site: `192.0.2.${n}` }))
  expect(warnings).toEqual([expect.stringContaining('80 % full')])
})
