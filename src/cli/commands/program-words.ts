import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'

/**
 * A program and its arguments, with the full paths of files that are named from here: a node is started elsewhere, by a
 * service for one. The program itself is looked for in PATH, unless it is written as a path.
 */
export function placedWords(words: readonly string[]): Promise<string[]> {
  return Promise.all(
    words.map(async (word, index) => {
      if (word.startsWith('-') || (index === 0 && !word.includes('/'))) return word
      const file = await stat(word).catch(() => undefined)
      return file?.isFile() ? resolve(word) : word
    }),
  )
}
