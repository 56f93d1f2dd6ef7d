import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'

/**
 * Whether an open file is still the one at its path. What is written into a file that was deleted is lost when the process
 * ends. `there` also if nobody can tell.
 */
export type FilePlace = 'there' | 'gone' | 'replaced'

/** @param path of a file that this process has just opened */
export function placeOfFile(path: string): () => Promise<FilePlace> {
  const opened = statSync(path, { bigint: true })
  return async () => {
    try {
      const { ino, dev } = await stat(path, { bigint: true })
      return ino === opened.ino && dev === opened.dev ? 'there' : 'replaced'
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ENOENT' || code === 'ENOTDIR' ? 'gone' : 'there'
    }
  }
}
