import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { findByReference } from './agent-reference.ts'

test('T19 a reference costs two searches at most, however many slashes it holds', () => {
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
  expect(searched).toHaveLength(4)
})
