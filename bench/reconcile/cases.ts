import { hash } from 'node:crypto'
import { type ElementKey, elementKey } from '../../src/protocols/sync/reconcile/element-key.ts'
import { LISTING_TTL_MS } from '../../src/schema/listing.ts'

/** What client and server hold when they meet. */
export type Case = { name: string; differences: number; client: ElementKey[]; server: ElementKey[] }

const NOW = Date.UTC(2026, 0, 2)

/** As many listings as asked for, updated evenly over the time a listing lives; later numbers are newer. */
export function madeKeys(count: number): ElementKey[] {
  return Array.from({ length: count }, (_, index) => {
    const time = NOW - LISTING_TTL_MS + Math.floor((index * LISTING_TTL_MS) / count)
    return elementKey(time, hash('sha256', `listing ${index}`, 'hex'))
  })
}

/** The ways in which replicas come to differ. The server knows what the client has missed. */
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
    // A change takes the place of what may be anywhere: an element less there, and one more at the end.
    { name: 'missed changes of any', differences, client: [...keys], server: [...elsewhere, ...later] },
    // Listings are refreshed when they are old.
    { name: 'missed refreshes', differences, client: [...keys], server: [...keys.slice(differences), ...later] },
  ]
}

/** The same places in every run. */
function someOf(count: number, wanted: number): Set<number> {
  const places = new Set<number>()
  for (let turn = 0; places.size < wanted; turn++) {
    places.add(Number.parseInt(hash('sha256', `place ${turn}`, 'hex').slice(0, 12), 16) % count)
  }
  return places
}
