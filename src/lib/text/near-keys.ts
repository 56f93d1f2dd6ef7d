import { editDistance } from './edit-distance.ts'

/**
 * Finds texts that are nearly equal to a given text, by lookups instead of comparisons.
 *
 * A text is cut into one piece more than the edits allowed, so at least one piece is unchanged (Li, Deng, Wang, Feng:
 * "PASS-JOIN", VLDB 2012). Pieces are stored as numbers. A search computes the numbers of every piece that could match.
 * A swap of neighbors may change two pieces, so the sorted letters are one more key. Numbers may collide: `isNear`
 * decides.
 */

/** Edits up to which two texts are near. Short texts allow none, because every letter counts. */
function editsOf(length: number): number {
  if (length < 6) return 0
  return length < 16 ? 1 : 2
}

export function isNear(a: string, b: string): boolean {
  return editDistance(a, b, editsOf(Math.min(a.length, b.length))) !== undefined
}

/** The keys under which a text is stored: at most four. */
export function storedKeys(text: string): number[] {
  const keys = [lettersKey(text)]
  const pieces = editsOf(text.length) + 1
  if (pieces === 1) return keys
  for (let piece = 0; piece < pieces; piece++) {
    const [from, length] = pieceOf(text.length, pieces, piece)
    keys.push(pieceKey(text.length, piece, text.slice(from, from + length)))
  }
  return keys
}

/** The keys that find every text near to this one: at most about two dozen. */
export function soughtKeys(text: string): number[] {
  const keys = [lettersKey(text)]
  for (let length = Math.max(6, text.length - 2); length <= text.length + 2; length++) {
    const edits = editsOf(Math.min(length, text.length))
    const longer = text.length - length
    if (Math.abs(longer) > edits) continue
    const pieces = editsOf(length) + 1
    for (let piece = 0; piece < pieces; piece++) {
      const [from, width] = pieceOf(length, pieces, piece)
      // The edits before and after an unchanged piece limit how far it can have moved.
      const lowest = Math.max(0, from - piece, from + longer - (pieces - 1 - piece))
      const highest = Math.min(text.length - width, from + piece, from + longer + (pieces - 1 - piece))
      for (let at = lowest; at <= highest; at++) keys.push(pieceKey(length, piece, text.slice(at, at + width)))
    }
  }
  return [...new Set(keys)]
}

/** Equal for texts with the same letters in any order. */
function lettersKey(text: string): number {
  return textKey(`~${text.split('').sort().join('')}`)
}

function pieceKey(length: number, piece: number, text: string): number {
  return textKey(`${length}.${piece}.${text}`)
}

/** Returns the start and the length of a piece. The last pieces are one longer if the length does not divide evenly. */
function pieceOf(length: number, pieces: number, piece: number): [from: number, length: number] {
  const short = Math.floor(length / pieces)
  const longs = length % pieces
  const firstLong = pieces - longs
  return piece < firstLong ? [piece * short, short] : [piece * short + (piece - firstLong), short + 1]
}

/** A fast 53-bit hash: FNV-1a twice. Only for lookups whose results are checked, not against attackers. */
export function textKey(text: string): number {
  let [a, b] = [0x811c9dc5, 0x01000193]
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x85ebca6b) ^ (b >>> 13)
  }
  return (a >>> 0) * 0x20_0000 + ((b >>> 0) & 0x1f_ffff)
}
