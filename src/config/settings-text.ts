import { open } from 'node:fs/promises'
import { reasonOf } from '../lib/errors.ts'
import { ConfigError } from './config-error.ts'

const FILE_BYTES_MAX = 256 * 1024

/** The text of a settings file; undefined if there is none. @throws ConfigError */
export async function readSettingsText(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path)
    const { size } = await file.stat()
    if (size > FILE_BYTES_MAX) throw new ConfigError(`${path}: the file is larger than ${FILE_BYTES_MAX / 1024} KiB`)
    return await file.readFile('utf8')
  } catch (error) {
    if (error instanceof ConfigError) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    // The code that opens the data directory reports this error.
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined
    throw new ConfigError(`${path}: the file cannot be read: ${refusalText(error) ?? reasonOf(error)}`, {
      cause: error,
    })
  }
}

/** What to do where the user that runs stoa may not use a file. @internal Exported for its test. */
export function refusalText(error: unknown): string | undefined {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'EACCES' && code !== 'EPERM') return undefined
  return 'the file belongs to another user: run stoa as that user (sudo -u <user> stoa …), or choose your own directory with --data-dir'
}
