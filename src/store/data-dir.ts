import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { draftName } from '../lib/draft-name.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { loadOrCreateSecret, modeOf, tighten } from './secret-file.ts'

/** Files of the data directory (D3). */
export const dataFiles = {
  identity: 'identity.key',
  worker: 'worker.key',
  workerSeller: 'worker-seller.json',
  market: 'market.key',
  wallet: 'wallet.key',
  apiToken: 'api.token',
  agents: 'agents.yaml',
  config: 'config.yaml',
  keys: 'keys.env',
  log: 'stoa.log',
  database: 'stoa.db',
  ledger: 'ledger.json',
  lock: 'lock.db',
  lockPid: 'lock.pid',
  node: 'node.json',
} as const
export const secretFiles = [
  dataFiles.identity,
  dataFiles.worker,
  dataFiles.market,
  dataFiles.wallet,
  dataFiles.apiToken,
  dataFiles.keys,
] as const

const PROBE_BYTES = 4096
const TOKEN_LENGTH_MIN = 16

export function dataFile(dataDir: string, name: keyof typeof dataFiles): string {
  return join(dataDir, dataFiles[name])
}

/**
 * Creates the data directory if it is missing (0700), checks that it is writable, and closes it to other users.
 *
 * @param options.probe false: skips the write check, which waits for the disk, if the caller writes to the disk anyway
 * @returns notes: one sentence for each permission that was too loose
 * @throws CodedError<'DATA_DIR_UNUSABLE'> that says what to do
 */
export async function openDataDir(
  path: string,
  options: { probe: boolean } = { probe: true },
): Promise<{ path: string; notes: string[] }> {
  try {
    await makeDirectory(path)
    if (!(await stat(path)).isDirectory()) throw errno('ENOTDIR')
    const notes = await closeToOthers(path)
    if (options.probe) await probe(path)
    return { path, notes }
  } catch (error) {
    throw error instanceof CodedError ? error : dataDirError(path, error)
  }
}

/**
 * Inspects the data directory without changing it: whether it exists, and its permission bits if the system has any.
 *
 * @throws CodedError<'DATA_DIR_UNUSABLE'> if a node could not use it
 */
export async function inspectDataDir(path: string): Promise<{ exists: boolean; mode: number | undefined }> {
  try {
    if (!(await stat(path)).isDirectory()) throw errno('ENOTDIR')
    await probe(path)
    return { exists: true, mode: await modeOf(path) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { exists: false, mode: undefined }
    throw dataDirError(path, error)
  }
}

/** The bearer token of the HTTP API: created once, 256 bits. @throws CodedError if the file holds no usable token */
export async function loadOrCreateApiToken(dataDir: string): Promise<string> {
  const path = dataFile(dataDir, 'apiToken')
  const { text } = await loadOrCreateSecret(path, () => `${randomBytes(32).toString('base64url')}\n`)
  const token = text.trim()
  if (token.length >= TOKEN_LENGTH_MIN && /^[A-Za-z0-9._~+/=-]{1,512}$/.test(token)) return token
  throw new CodedError(
    'SECRET_FILE_UNUSABLE',
    `${path} holds no usable token (one line, at least ${TOKEN_LENGTH_MIN} letters or digits): delete the file and a new one is made`,
  )
}

/** An error of the operating system as a sentence that says what to do. */
export function dataDirError(path: string, error: unknown): CodedError<'DATA_DIR_UNUSABLE'> {
  const choose = 'choose another with --data-dir or NODE_DATA_DIR'
  const sentences: Record<string, string> = {
    EACCES: `the user that runs stoa may not write to the data directory ${path}: give it to that user (chown), or ${choose}`,
    EROFS: `the data directory ${path} is on a read-only file system: ${choose}`,
    ENOSPC: `the disk that holds the data directory ${path} is full: free some space, or ${choose}`,
    ENOTDIR: `the data directory ${path} is, or lies under, a file and not a directory: ${choose}`,
    ENOENT: `the data directory ${path} cannot be made there: ${choose}`,
    ENAMETOOLONG: `the path of the data directory is too long: ${choose}`,
    ELOOP: `the path of the data directory ${path} runs through links in a circle: ${choose}`,
    EIO: `the disk that holds the data directory ${path} fails to read or write: check it, or ${choose}`,
  }
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? ''
  const same: Record<string, string> = { EPERM: 'EACCES', EEXIST: 'ENOTDIR', EDQUOT: 'ENOSPC' }
  const sentence =
    sentences[same[code] ?? code] ?? `the data directory ${path} cannot be used (${reasonOf(error)}): ${choose}`
  return new CodedError('DATA_DIR_UNUSABLE', sentence, { cause: error })
}

/**
 * Tightens the modes of the directory and of the keys in it.
 *
 * Changes only a directory that is ours or empty: `--data-dir /tmp` must not close /tmp to other users. Refuses a
 * shared directory, where other users could swap the keys.
 */
async function closeToOthers(path: string): Promise<string[]> {
  const mode = (await stat(path)).mode
  const entries = await readdir(path)
  const own = entries.length === 0 || Object.values(dataFiles).some((name) => entries.includes(name))
  if (!own && (mode & 0o022) !== 0) {
    throw new CodedError(
      'DATA_DIR_UNUSABLE',
      `${path} is shared with other users (mode ${(mode & 0o7777).toString(8)}) and holds other files: give stoa a directory of its own, such as --data-dir ${join(path, 'stoa')}`,
    )
  }
  const notes = own ? [await tighten(path, 0o700)] : []
  for (const name of secretFiles) notes.push(await tighten(join(path, name), 0o600))
  return notes.filter((note) => note !== undefined)
}

/** Does not use `recursive: true`: mkdir then never returns if the parent exists and still answers ENOENT (/proc). */
async function makeDirectory(path: string): Promise<void> {
  const make = () =>
    mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    })
  try {
    await make()
  } catch (error) {
    const parent = dirname(path)
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === path) throw error
    await makeDirectory(parent)
    await make()
  }
}

/**
 * Writes and syncs a block. Permission bits prove nothing: root passes all of them, and they do not show a full disk.
 */
async function probe(path: string): Promise<void> {
  const draft = draftName(join(path, '.probe'))
  try {
    await using file = await open(draft, 'wx', 0o600)
    await file.writeFile(Buffer.alloc(PROBE_BYTES, 1))
    await file.sync()
  } finally {
    await unlink(draft).catch(() => {})
  }
}

function errno(code: string): Error {
  return Object.assign(new Error(code), { code })
}
