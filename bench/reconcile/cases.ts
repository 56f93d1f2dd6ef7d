import { hash } from 'node:crypto'
import { type ElementKey, elementKey } from '../../src/protocols/sync/reconcile/element-key.ts'
import { LISTING_TTL_MS } from '../../src/schema/listing.ts'

/** The elements of client and server when they meet. */
export type Case = { name: string; differences: number; client: ElementKey[]; server: ElementKey[] }

const NOW = Date.UTC(2026, 0, 2)

/** Keys of this many listings, with updates spread evenly over a listing's lifetime. Later numbers are newer. */
export function madeKeys(count: number): ElementKey[] {
  return Array.from({ length: count }, (_, index) => {
    const time = NOW - LISTING_TTL_MS + Math.floor((index * LISTING_TTL_MS) / count)
    return elementKey(time, hash('sha256', `listing ${index}`, 'hex'))
  })
}

/** The ways in which replicas come to differ. The server has the changes that the client missed. */
export function casesOf(keys: readonly ElementKey[], differences: number): Case[] {
  if (differences === 0) return [{ name: 'equal', differences, client: [...keys], server: [...keys] }]
  const later = Array.from({ length: differences }, (_, index) =>
    elementKey(NOW + index, hash('sha256', `later ${index}`, 'hex')),
  )
  const anywhere = someOf(keys.length, differences)
  const elsewhere = keys.filter((_, index) => !anywhere.has(index))
  return [
    { name: 'missed the newest', differences, client: keys.slice(0, -differences), server: [...keys] },
    { name: 'missed any', differences, client: elsewhere, server: [...keys] },
    // A change can replace any listing: one element less at any place, and one more at the end.
    { name: 'missed changes of any', differences, client: [...keys], server: [...elsewhere, ...later] },
    // Sellers refresh old listings.
    { name: 'missed refreshes', differences, client: [...keys], server: [...keys.slice(differences), ...later] },
  ]
}

/** A set of positions that is the same in every run. */
function someOf(count: number, wanted: number): Set<number> {
  const places = new Set<number>()
  for (let turn = 0; places.size < wanted; turn++) {
    places.add(Number.parseInt(hash('sha256', `place ${turn}`, 'hex').slice(0, 12), 16) % count)
  }
  return places
}
