import { open, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { draftName } from '../lib/draft-name.ts'

/**
 * Replaces a file atomically: a reader, or a restart after a power cut, finds the old or the new file.
 *
 * Not write-file-atomic: it does not sync the folder, and its draft names do not tell which process left them behind.
 *
 * A new file is readable only by its owner. An existing file keeps its mode, unless a mode is given.
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
      // Set the mode again: the umask of the process must not narrow the owner's choice.
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

/** Makes the new name survive a power cut. Some systems cannot sync a directory: the file is complete anyway. */
async function syncDirectory(directory: string): Promise<void> {
  try {
    await using handle = await open(directory, 'r')
    await handle.sync()
  } catch {}
}
