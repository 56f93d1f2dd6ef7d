import { type BigIntStats, statSync } from 'node:fs'
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
      return isSameFile(await stat(path, { bigint: true }), opened) ? 'there' : 'replaced'
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ENOENT' || code === 'ENOTDIR' ? 'gone' : 'there'
    }
  }
}

type FileId = Pick<BigIntStats, 'ino' | 'dev'>

/** True for one file, by whatever path it was found. */
export function isSameFile(a: FileId, b: FileId): boolean {
  return a.ino === b.ino && a.dev === b.dev
}
