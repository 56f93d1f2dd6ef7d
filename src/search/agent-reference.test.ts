import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import type { Listing } from '../schema/listing.ts'
import { findByReference, pointsTo, type ReferenceDeps } from './agent-reference.ts'

test('T19 a reference costs one search, however many slashes it holds', () => {
  const searched: string[] = []
  const listing = listingFixture({ name: 'a/b' })
  const named = (name: string) => {
    searched.push(name)
    return name === 'a/b' ? [listing] : []
  }
  const find = (reference: string) =>
    findByReference(reference, { named, idsBeginning: () => [], resolve: () => undefined })
  expect(find(`${listing.seller_id}/a/b`)).toBe(listing)
  expect(find(`somebody${'/x'.repeat(500)}`)).toBeUndefined()
  expect(searched).toHaveLength(2)
})

const of = (listings: readonly Listing[]): ReferenceDeps => ({
  named: (name) => listings.filter((listing) => listing.name === name),
  idsBeginning: (beginning) => listings.map(({ id }) => id).filter((id) => id.startsWith(beginning)),
  resolve: (id) => listings.find((listing) => listing.id === id),
})

test('T3: a stranger that calls its agent seller/name is not taken for the agent of that seller', () => {
  const meant = listingFixture({ name: 'Translator' })
  const { seller_id: seller, seller_did: did } = meant
  const stranger = (name: string) => listingFixture({ name, id: 'z'.repeat(32), seller_id: `${seller.slice(0, -1)}x` })
  for (const reference of [`${seller}/Translator`, `${seller.slice(0, 12)}/Translator`, `${did}/Translator`]) {
    expect(findByReference(reference, of([stranger(reference), meant]))).toBe(meant)
    // Nor while the seller is away.
    expect(findByReference(reference, of([stranger(reference)]))).toBeUndefined()
  }
})

test('T3: a stranger that calls its agent as the id of another begins is not taken for it', () => {
  const meant = listingFixture({ name: 'Translator' })
  const reference = meant.id.slice(0, 8)
  const stranger = listingFixture({ name: reference, id: 'z'.repeat(32) })
  expect(() => findByReference(reference, of([stranger, meant]))).toThrow(
    expect.objectContaining({ code: 'AMBIGUOUS_AGENT' }),
  )
  expect(findByReference(reference, of([meant]))).toBe(meant)
})

test('T3: the beginning of a peer id, which another key may have, points to no agent whatever its price', () => {
  const listing = listingFixture({ name: 'gpt-4o' })
  const { id, seller_id: seller, seller_did: did } = listing
  for (const beginning of [seller.slice(0, 8), seller.slice(0, 16), seller.slice(0, -1)])
    expect(pointsTo(`${beginning}/gpt-4o`, listing)).toBe(false)
  for (const whole of [id, `${seller}/gpt-4o`, `${did}/gpt-4o`]) expect(pointsTo(whole, listing)).toBe(true)
})
