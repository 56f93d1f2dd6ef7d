import { editDistance } from './edit-distance.ts'

/**
 * Finds texts that nearly equal one among many, by lookups instead of comparisons.
 *
 * A text is cut into one piece more than the edits it may have suffered, so that one piece at least came through whole
 * (Li, Deng, Wang, Feng: "PASS-JOIN", VLDB 2012). Its pieces are stored as numbers; whoever looks for its like asks for the
 * numbers of every piece that could stand at such a place. A swap of neighbours may cut two pieces at once, so the
 * letters, sorted, are one more key. Numbers may collide: `isNear` decides.
 */

/** Edits over which two texts are still near: none for short ones, where every letter counts. */
function editsOf(length: number): number {
  if (length < 6) return 0
  return length < 16 ? 1 : 2
}

export function isNear(a: string, b: string): boolean {
  return editDistance(a, b, editsOf(Math.min(a.length, b.length))) !== undefined
}

/** The keys a text is stored under: four at most. */
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

/** The keys under which everything near to a text can be found: about two dozen at most. */
export function soughtKeys(text: string): number[] {
  const keys = [lettersKey(text)]
  for (let length = Math.max(6, text.length - 2); length <= text.length + 2; length++) {
    const edits = editsOf(Math.min(length, text.length))
    const longer = text.length - length
    if (Math.abs(longer) > edits) continue
    const pieces = editsOf(length) + 1
    for (let piece = 0; piece < pieces; piece++) {
      const [from, width] = pieceOf(length, pieces, piece)
      // An intact piece has moved by no more than the edits before it, and by no more than those after it allow.
      const lowest = Math.max(0, from - piece, from + longer - (pieces - 1 - piece))
      const highest = Math.min(text.length - width, from + piece, from + longer + (pieces - 1 - piece))
      for (let at = lowest; at <= highest; at++) keys.push(pieceKey(length, piece, text.slice(at, at + width)))
    }
  }
  return [...new Set(keys)]
}

/** Equal for texts of the same letters in whatever order. */
function lettersKey(text: string): number {
  return textKey(`~${text.split('').sort().join('')}`)
}

function pieceKey(length: number, piece: number, text: string): number {
  return textKey(`${length}.${piece}.${text}`)
}

/** Where a piece of a text of that length begins, and how long it is; the last ones take what does not divide. */
function pieceOf(length: number, pieces: number, piece: number): [from: number, length: number] {
  const short = Math.floor(length / pieces)
  const longs = length % pieces
  const firstLong = pieces - longs
  return piece < firstLong ? [piece * short, short] : [piece * short + (piece - firstLong), short + 1]
}

/** 53 bits of a text, quickly: FNV-1a twice over. For lookups whose answers are checked, not against an attacker. */
export function textKey(text: string): number {
  let [a, b] = [0x811c9dc5, 0x01000193]
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x85ebca6b) ^ (b >>> 13)
  }
  return (a >>> 0) * 0x20_0000 + ((b >>> 0) & 0x1f_ffff)
}
