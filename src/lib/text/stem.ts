/** Endings that an English word may have or not and still mean the same, the long ones first. */
const ENDINGS = [
  /(?:i|(?<=y))[sz](?:e[drs]?|ers|ing|ations?)$/,
  /at(?:e[ds]?|ing|ors?|ions?)$/,
  /(?:ions?|ings?|ers?|ors?|ies|ied|sis|ses|ed|es|e|s|y)$/,
]
const STEM_LENGTH_MIN = 4
const ENGLISH = /^[a-z]{5,}$/

/**
 * The beginning that the forms of an English word share, in British and American spelling: `summar` for `summary`,
 * `summarise`, `summarizing`. Lighter than Porter's, and no word either: good for nothing but comparison. Words that are
 * short, or hold anything but a to z, stay as they are.
 *
 * @param word folded (fold.ts)
 */
export function stemOf(word: string): string {
  if (!ENGLISH.test(word)) return word
  for (const ending of ENDINGS) {
    const stem = word.replace(ending, '')
    if (stem !== word && stem.length >= STEM_LENGTH_MIN) return stem
  }
  return word
}
