import { chmod, constants, copyFile, link, open, readFile, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { draftName } from '../lib/draft-name.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'

/** Limit in bytes. A secret is a line of text: a larger file is some other file. */
const SECRET_BYTES_MAX = 64 * 1024

type SecretFileCode = 'SECRET_FILE_EXISTS' | 'SECRET_FILE_UNUSABLE'

/**
 * Writes a file that only its owner can read (0600). Atomic, and on disk when it resolves.
 *
 * @param options.replace false: keeps an existing file and throws SECRET_FILE_EXISTS
 * @throws CodedError<SecretFileCode>
 */
export async function writeSecretFile(
  path: string,
  contents: string | Uint8Array,
  { replace }: { replace: boolean },
): Promise<void> {
  const draft = draftName(path)
  try {
    {
      await using file = await open(draft, 'wx', 0o600)
      await file.writeFile(contents)
      await file.sync()
    }
    // A link fails where a rename would overwrite. If two processes create a key at once, the first one wins.
    if (replace) await rename(draft, path)
    else await claim(draft, path)
    await syncDirectory(dirname(path))
  } catch (error) {
    if (errnoOf(error) === 'EEXIST')
      throw new CodedError('SECRET_FILE_EXISTS', `${path} exists already`, { cause: error })
    throw unusable(path, 'written', error)
  } finally {
    await unlink(draft).catch(() => {})
  }
}

/** The text of a secret file, or undefined if there is none. @throws CodedError<SecretFileCode> */
export async function readSecretFile(path: string): Promise<string | undefined> {
  try {
    const { size } = await stat(path)
    if (size > SECRET_BYTES_MAX)
      throw new RangeError(`it has ${size} bytes, and a secret has at most ${SECRET_BYTES_MAX}`)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw unusable(path, 'read', error)
  }
}

/** Reads the secret at `path`, or creates and stores one. Two processes at once get the same secret. */
export async function loadOrCreateSecret(
  path: string,
  make: () => string,
): Promise<{ text: string; created: boolean }> {
  const found = await readSecretFile(path)
  if (found !== undefined) return { text: found, created: false }
  const text = make()
  try {
    await writeSecretFile(path, text, { replace: false })
    return { text, created: true }
  } catch (error) {
    const other = error instanceof CodedError && error.code === 'SECRET_FILE_EXISTS' && (await readSecretFile(path))
    if (typeof other === 'string') return { text: other, created: false }
    throw error
  }
}

/**
 * Removes the rights of group and others from a path.
 *
 * @returns what was found and done, for the log; undefined if there was nothing to do or the path does not exist
 */
export async function tighten(path: string, mode: 0o600 | 0o700): Promise<string | undefined> {
  const found = await modeOf(path)
  if (found === undefined || (found & 0o077) === 0) return undefined
  const text = `${path} could be read by other users (mode ${found.toString(8)})`
  try {
    await chmod(path, mode)
    return `${text}: its mode is now ${mode.toString(8)}`
  } catch (error) {
    return `${text} and its mode cannot be changed (${reasonOf(error)}): run chmod ${mode.toString(8)} on it as its owner`
  }
}

/** The permission bits of a path; undefined if the path does not exist. */
export async function modeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mode & 0o777
  } catch {
    return undefined
  }
}

async function claim(draft: string, path: string): Promise<void> {
  try {
    await link(draft, path)
  } catch (error) {
    // Some file systems (FAT, a few network and container ones) have no links.
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(errnoOf(error) ?? '')) throw error
    await copyFile(draft, path, constants.COPYFILE_EXCL)
    await using file = await open(path, 'r+')
    await file.sync()
  }
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r')
  await directory.sync()
}

function unusable(path: string, deed: 'read' | 'written', error: unknown): CodedError<SecretFileCode> {
  if (error instanceof CodedError) return error
  return new CodedError('SECRET_FILE_UNUSABLE', `${path} cannot be ${deed}: ${reasonOf(error)}`, { cause: error })
}

function errnoOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code
}
