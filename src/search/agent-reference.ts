import { MarketError } from '../listings/market-error.ts'
import type { Listing } from '../schema/listing.ts'

/** An id has 32 base32 characters. Text of 26 to 64 such characters is read as an id, never as a name. */
const WHOLE_ID = /^[a-z2-7]{26,64}$/
const ID_BEGINNING = /^[a-z2-7]{6,25}$/
const SELLER_BEGINNING_MIN = 8
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
 * beginning of an id.
 *
 * @throws MarketError 'AMBIGUOUS_AGENT' with the agents that fit. A name alone never chooses between sellers.
 */
export function findByReference(reference: string, deps: ReferenceDeps): Listing | undefined {
  const text = reference.trim()
  if (text === '' || WHOLE_ID.test(text)) return undefined
  const named = called(text, deps)
  if (named.length > 0) return onlyOne(text, named)
  // A seller's id has no slash, so everything after the first slash is the name.
  const slash = text.indexOf('/')
  if (slash >= SELLER_BEGINNING_MIN) {
    const seller = text.slice(0, slash)
    const isSeller = ({ seller_id, seller_did }: Listing) => seller_id.startsWith(seller) || seller_did === seller
    const theirs = called(text.slice(slash + 1), deps).filter(isSeller)
    if (theirs.length > 0) return onlyOne(text, theirs)
  }
  if (!ID_BEGINNING.test(text)) return undefined
  const beginning = deps.idsBeginning(text, SHOWN_MAX + 1).flatMap((id) => deps.resolve(id) ?? [])
  return onlyOne(text, beginning)
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
