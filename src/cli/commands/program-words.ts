import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'

/**
 * Replaces names of files in a command by their full paths, because a node may start in another directory, such as a
 * service's. The program itself is searched in PATH, unless it is a path.
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
