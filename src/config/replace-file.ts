import { open, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { draftName } from '../lib/draft-name.ts'

/**
 * Writes a file so that a reader, or a machine that loses power, finds the old or the new one and nothing in between.
 *
 * A new file is readable by its owner only; an existing one keeps its mode, unless one is given.
 */
export async function replaceFile(path: string, text: string, givenMode?: number): Promise<void> {
  const directory = dirname(path)
  const temporary = draftName(join(directory, `.${basename(path)}`))
  const mode =
    givenMode ??
    (await stat(path).then(
      (stats) => stats.mode & 0o777,
      () => 0o600,
    ))
  try {
    {
      await using file = await open(temporary, 'wx', mode)
      // The mask of the process does not narrow what the owner had chosen.
      await file.chmod(mode)
      await file.writeFile(text, 'utf8')
      await file.sync()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw error
  }
  await syncDirectory(directory)
}

/** Without this the new name may be lost with the power. Not every system can: the file is whole all the same. */
async function syncDirectory(directory: string): Promise<void> {
  try {
    await using handle = await open(directory, 'r')
    await handle.sync()
  } catch {}
}
