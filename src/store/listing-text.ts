import { foldText, wordsOf } from '../lib/text/fold.ts'
import { textKey } from '../lib/text/near-keys.ts'
import { stemOf } from '../lib/text/stem.ts'

/** What can be searched of a listing that is on the market. */
export type ListingFacts = {
  name: string
  description: string
  tags: readonly string[]
  protocols: readonly string[]
  /** Atomic units. */
  price: bigint
}

/** Something a search may be limited to. It has an index, so that even rare ones are found at once. */
export type Mark =
  | { kind: 'tag'; tag: string }
  | { kind: 'protocol'; protocol: string }
  | { kind: 'seller'; sellerId: string }
  | { kind: 'free' }
  | { kind: 'paid' }
  /** Names of one skeleton (lib/text/skeleton.ts). */
  | { kind: 'name'; skeleton: string }

/** A listing as the text index has it: stems of words, apart from its marks, which end with the words of its name. */
export type IndexedText = { name: string; tags: string; description: string; marks: string; words: readonly string[] }

/**
 * A mark as a word of the index. It begins with a private-use character, which folded text never holds, so no word of a
 * listing or of a query is ever taken for one. Marks may collide: whoever filters looks at what was found.
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
 * A word of a name as a word of the index of its own: where it stands in names is then found without passing all places
 * where it stands at all.
 */
export function nameWord(word: string): string {
  return `\ue001${word}`
}

/** Tags that differ only in case, accents or form are one. */
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
    // Words of two tags are no phrase.
    tags: tags.map(stems).join(' \ue000 '),
    description: stems(wordsOf(foldText(facts.description))),
    marks: [...marks.map(markWord), ...name.map((word) => nameWord(stemOf(word)))].join(' '),
    words: [...new Set([...name, ...tags.flat()])].filter(isCorrectable),
  }
}

function stems(words: readonly string[]): string {
  return words.map(stemOf).join(' ')
}

/** Whether a mistyped word may be taken for this one. */
function isCorrectable({ length }: string): boolean {
  return length >= 4 && length <= 32
}
