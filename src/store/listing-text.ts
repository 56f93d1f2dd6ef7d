import { foldText, wordsOf } from '../lib/text/fold.ts'
import { textKey } from '../lib/text/near-keys.ts'
import { stemOf } from '../lib/text/stem.ts'

/** The searchable parts of a listing on the market. */
export type ListingFacts = {
  name: string
  description: string
  tags: readonly string[]
  protocols: readonly string[]
  /** In atomic units. */
  price: bigint
}

/** A filter of a search. Each mark is indexed, so that even rare ones are found at once. */
export type Mark =
  | { kind: 'tag'; tag: string }
  | { kind: 'protocol'; protocol: string }
  | { kind: 'seller'; sellerId: string }
  | { kind: 'free' }
  | { kind: 'paid' }
  /** Names with this skeleton (lib/text/skeleton.ts). */
  | { kind: 'name'; skeleton: string }

/** A listing as the text index holds it: stems of words, apart from the marks, which end with the words of the name. */
export type IndexedText = { name: string; tags: string; description: string; marks: string; words: readonly string[] }

/**
 * A mark as a word of the index. It begins with a private-use character that folded text never contains, so no word of
 * a listing or query equals a mark. Marks may collide: callers that filter check the results.
 */
export function markWord(mark: Mark): string {
  switch (mark.kind) {
    case 'tag':
      return `\ue000t${textKey(tagForm(mark.tag))}`
    case 'protocol':
      return `\ue000r${textKey(mark.protocol)}`
    case 'seller':
      return `\ue000s${textKey(mark.sellerId)}`
    case 'name':
      return `\ue000n${textKey(mark.skeleton)}`
    case 'free':
    case 'paid':
      return `\ue000${mark.kind}`
  }
}

/**
 * A word of a name as a separate word of the index. So a search in names does not read all other places of the word.
 */
export function nameWord(word: string): string {
  return `\ue001${word}`
}

/** Tags that differ only in case, accents or form are equal. */
export function tagForm(tag: string): string {
  return foldText(tag).trim().replace(/\s+/g, ' ')
}

export function indexedText(facts: ListingFacts, sellerId: string, skeleton: string): IndexedText {
  const marks: Mark[] = [
    { kind: 'seller', sellerId },
    { kind: 'name', skeleton },
    { kind: facts.price === 0n ? 'free' : 'paid' },
    ...facts.tags.map((tag) => ({ kind: 'tag', tag }) as const),
    ...facts.protocols.map((protocol) => ({ kind: 'protocol', protocol }) as const),
  ]
  const name = wordsOf(foldText(facts.name))
  const tags = facts.tags.map((tag) => wordsOf(foldText(tag)))
  return {
    name: stems(name),
    // Keep the words of two tags from forming a phrase.
    tags: tags.map(stems).join(' \ue000 '),
    description: stems(wordsOf(foldText(facts.description))),
    marks: [...marks.map(markWord), ...name.map((word) => nameWord(stemOf(word)))].join(' '),
    words: [...new Set([...name, ...tags.flat()])].filter(isCorrectable),
  }
}

function stems(words: readonly string[]): string {
  return words.map(stemOf).join(' ')
}

/** True if a mistyped word may be corrected to this one. */
function isCorrectable({ length }: string): boolean {
  return length >= 4 && length <= 32
}
