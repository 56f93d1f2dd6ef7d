/** English word endings that do not change the meaning, longest first. */
const ENDINGS = [
  /(?:i|(?<=y))[sz](?:e[drs]?|ers|ing|ations?)$/,
  /at(?:e[ds]?|ing|ors?|ions?)$/,
  /(?:ions?|ings?|ers?|ors?|ies|ied|sis|ses|ed|es|e|s|y)$/,
]
const STEM_LENGTH_MIN = 4
const ENGLISH = /^[a-z]{5,}$/

/**
 * Returns the common beginning of the forms of an English word, in British and American spelling: `summar` for
 * `summary`, `summarise`, `summarizing`. Lighter than Porter's stemmer; use it only for comparison. Short words, and
 * words with other characters than a to z, stay unchanged. @param word folded (fold.ts)
 */
export function stemOf(word: string): string {
  if (!ENGLISH.test(word)) return word
  for (const ending of ENDINGS) {
    const stem = word.replace(ending, '')
    if (stem !== word && stem.length >= STEM_LENGTH_MIN) return stem
  }
  return word
}
