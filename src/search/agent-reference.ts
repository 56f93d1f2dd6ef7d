import { MarketError } from '../listings/market-error.ts'
import type { Listing } from '../schema/listing.ts'

/** An id has 32 base32 characters. Text of 26 to 64 such characters is read as an id, never as a name. */
const WHOLE_ID = /^[a-z2-7]{26,64}$/
const ID_BEGINNING = /^[a-z2-7]{6,25}$/
/** What stands before the slash of `seller/name`: a peer id or its beginning, or a DID. Such text is never read as a name. */
const SELLER = /^(?:12D3KooW[0-9A-Za-z]*|did:peer:0[0-9A-Za-z]+)$/
const SHOWN_MAX = 5

export type ReferenceDeps = {
  /** Listings with this name, the longest-known first. */
  named(name: string): readonly Listing[]
  /** Ids on the market that start with `beginning`. */
  idsBeginning(beginning: string, max: number): readonly string[]
  resolve(id: string): Listing | undefined
}

/**
 * Finds the one agent that a person means. A reference is a name that only one agent has, `seller/name`, or the
 * beginning of an id. Anybody may give an agent any name, so a name never stands in for one of the others.
 *
 * @throws MarketError 'AMBIGUOUS_AGENT' with the agents that fit. A name alone never chooses between sellers.
 */
export function findByReference(reference: string, deps: ReferenceDeps): Listing | undefined {
  const text = reference.trim()
  if (text === '' || WHOLE_ID.test(text)) return undefined
  const ofSeller = sellerAndName(text)
  if (ofSeller !== undefined) {
    const theirs = called(ofSeller.name, deps).filter((listing) => isSoldBy(listing, ofSeller.seller))
    return onlyOne(text, theirs)
  }
  const named = called(text, deps)
  const ids = ID_BEGINNING.test(text) ? deps.idsBeginning(text, SHOWN_MAX + 1) : []
  const others = ids.filter((id) => named.every((listing) => listing.id !== id))
  return onlyOne(text, [...named, ...others.flatMap((id) => deps.resolve(id) ?? [])])
}

/**
 * True if a reference names one agent that no other seller can imitate: a whole id, or `seller/name` with a whole peer id or
 * DID. The beginning of a peer id is not enough: a key that matches it is found by trying keys.
 */
export function pointsTo(reference: string, listing: Listing): boolean {
  const text = reference.trim()
  const ofSeller = sellerAndName(text)
  if (ofSeller === undefined) return text === listing.id
  return [listing.seller_id, listing.seller_did].includes(ofSeller.seller)
}

/** A seller has no slash, so everything after the first slash is the name. */
function sellerAndName(text: string): { seller: string; name: string } | undefined {
  const slash = text.indexOf('/')
  const seller = text.slice(0, Math.max(0, slash))
  return SELLER.test(seller) ? { seller, name: text.slice(slash + 1) } : undefined
}

function isSoldBy({ seller_id, seller_did }: Listing, seller: string): boolean {
  return seller_id.startsWith(seller) || seller_did === seller
}

/** Compares names without letter case. If exactly one name also has the same case, only that listing fits. */
function called(name: string, { named }: ReferenceDeps): Listing[] {
  const folded = (text: string) => text.normalize('NFC').toLowerCase()
  const found = named(name).filter((listing) => folded(listing.name) === folded(name))
  const exact = found.filter((listing) => listing.name.normalize('NFC') === name.normalize('NFC'))
  return exact.length === 1 ? exact : found
}

function onlyOne(reference: string, listings: readonly Listing[]): Listing | undefined {
  if (listings.length < 2) return listings[0]
  const shown = listings
    .slice(0, SHOWN_MAX)
    .map(({ id, name, seller_id }) => `${id} (${seller_id.slice(0, 16)}…/${name})`)
  const more = listings.length > SHOWN_MAX ? ' and more' : ''
  const fix = `give the id, or seller/name, of ${shown.join(', ')}${more}`
  throw new MarketError('AMBIGUOUS_AGENT', `several agents fit ${JSON.stringify(reference)}: ${fix}`)
}
