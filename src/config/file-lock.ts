import { randomBytes } from 'node:crypto'
import { link, open, readFile, rename, rm } from 'node:fs/promises'
import { CodedError } from '../lib/errors.ts'
import { pause } from '../lib/wait.ts'

/** A lock file unchanged for this long belongs to a dead process: the guarded work takes milliseconds. */
const STALE_MS = 5000
const WAIT_MAX_MS = 15_000
const LOOK_EVERY_MS = 20

type FileLock = {
  /** False if another process took the lock over. */
  isHeld(): Promise<boolean>
  release(): Promise<void>
}

/**
 * Takes a lock shared by processes on one file system: a file that only one of them can create.
 *
 * @throws CodedError 'FILE_LOCKED' after 15 s; errors of the file system unchanged
 */
export async function lockFile(path: string): Promise<FileLock> {
  const token = randomBytes(12).toString('hex')
  const started = performance.now()
  let seen = { token: '', since: started }
  while (!(await create(path, token))) {
    const holder = await holderOf(path)
    const now = performance.now()
    if (holder !== undefined && holder !== seen.token) seen = { token: holder, since: now }
    else if (holder !== undefined && now - seen.since > STALE_MS) await removeStale(path, holder, token)
    if (now - started > WAIT_MAX_MS) {
      throw new CodedError(
        'FILE_LOCKED',
        `another process holds ${path}: try again, or delete the file if no such process runs`,
      )
    }
    await pause(LOOK_EVERY_MS)
  }
  return {
    isHeld: async () => (await holderOf(path)) === token,
    async release() {
      if ((await holderOf(path)) === token) await rm(path, { force: true })
    },
  }
}

async function create(path: string, token: string): Promise<boolean> {
  try {
    await using file = await open(path, 'wx', 0o600)
    await file.writeFile(token)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** @returns the token in the lock file; undefined if the file is gone */
async function holderOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Removes a stale lock. If several processes find it, one of them removes it. A lock taken meanwhile is put back. */
async function removeStale(path: string, staleToken: string, ownToken: string): Promise<void> {
  const aside = `${path}.${ownToken}`
  try {
    await rename(path, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  if ((await holderOf(aside)) !== staleToken) await link(aside, path).catch(() => {})
  await rm(aside, { force: true })
}
