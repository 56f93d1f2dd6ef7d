import { access, type FileHandle, link, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { generateKeyPair, privateKeyFromProtobuf, privateKeyToProtobuf } from '@libp2p/crypto/keys'
import type { PrivateKey } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { draftName } from '../lib/draft-name.ts'
import { CodedError, reasonOf } from '../lib/errors.ts'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { didOfPeer } from './did.ts'

export { didOfPeer, peerOfDid } from './did.ts'

/** Who a node is on the network. `privateKey` is not enumerable, so logs and JSON cannot show it. */
export type Identity = { privateKey: PrivateKey; peerId: string; did: string }

/** The libp2p protobuf of an Ed25519 private key: 4 header bytes, seed, public key. */
const KEY_FILE_BYTES = 68
const OWNER_ONLY = 0o600

/**
 * Loads the identity from `path`. The first call creates it.
 *
 * A new key is written to a draft file and then linked into place. A crash therefore leaves either a complete key or
 * none, and two simultaneous calls get the same key. If other users can read the file, its mode is changed, with a
 * warning.
 *
 * @throws CodedError `IDENTITY_UNREADABLE` if the file exists but has no usable key (it is never replaced),
 * `IDENTITY_UNWRITABLE` if no key can be created
 */
export async function loadOrCreateIdentity(
  path: string,
  deps: { logger: Logger } = { logger: silentLogger },
): Promise<Identity> {
  const kept = await readKey(path, deps.logger)
  if (kept !== undefined) return identityOf(kept)

  const fresh = await generateKeyPair('Ed25519')
  const placed = await placeKey(path, privateKeyToProtobuf(fresh))
  const key = placed ? fresh : await readKey(path, deps.logger)
  if (key === undefined) throw unreadable(path, 'another process removed it')
  return identityOf(key)
}

/**
 * The identity at `path` without changing anything. Undefined: there is none yet.
 *
 * @throws CodedError `IDENTITY_UNREADABLE`
 */
export async function readIdentity(path: string): Promise<Identity | undefined> {
  const key = await readKey(path)
  return key && identityOf(key)
}

/** Creates an identity that is not stored. */
export async function createIdentity(): Promise<Identity> {
  return identityOf(await generateKeyPair('Ed25519'))
}

function identityOf(privateKey: PrivateKey): Identity {
  const peerId = peerIdFromPrivateKey(privateKey).toString()
  const identity = { peerId, did: didOfPeer(peerId) }
  return Object.defineProperty(identity, 'privateKey', { value: privateKey }) as Identity
}

/** @param logger whom a mode that was too loose is told, and corrected. Without it the mode stays */
async function readKey(path: string, logger?: Logger): Promise<PrivateKey | undefined> {
  let file: FileHandle
  try {
    file = await open(path, 'r')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw unreadable(path, reasonOf(error), error)
  }
  try {
    const { size, mode } = await file.stat()
    if (size !== KEY_FILE_BYTES) throw new Error(`it has ${size} bytes, a key has ${KEY_FILE_BYTES}`)
    if (logger !== undefined && (mode & 0o077) !== 0) await closeToOthers(file, path, logger)
    return await decodeKey(await file.readFile())
  } catch (error) {
    throw unreadable(path, reasonOf(error), error)
  } finally {
    await file.close()
  }
}

async function decodeKey(bytes: Uint8Array): Promise<PrivateKey> {
  const key = privateKeyFromProtobuf(bytes)
  if (key.type !== 'Ed25519') throw new Error(`it has an ${key.type} key, not an Ed25519 key`)
  // The file has both halves of the key. If they did not match, other nodes would refuse everything this node signs.
  const probe = Uint8Array.of(1)
  if (!(await key.publicKey.verify(probe, await key.sign(probe))))
    throw new Error('its two halves do not belong together')
  return key
}

async function closeToOthers(file: FileHandle, path: string, logger: Logger): Promise<void> {
  try {
    await file.chmod(OWNER_ONLY)
    logger.warn({ path }, 'the identity key could be read by other users of this machine; its mode is now 0600')
  } catch (error) {
    logger.warn({ path, err: error }, `other users of this machine can read the identity key: chmod 600 it`)
  }
}

/** Puts a complete new key file in place. Returns false if a file is already there. */
async function placeKey(path: string, bytes: Uint8Array): Promise<boolean> {
  const draft = draftName(path)
  try {
    const file = await open(draft, 'wx', OWNER_ONLY)
    try {
      await file.writeFile(bytes)
      await file.sync()
    } finally {
      await file.close()
    }
    const placed = await linkOrRename(draft, path)
    await syncFolder(dirname(path))
    return placed
  } catch (error) {
    const fix = 'the data directory must exist, be writable and have free space'
    const message = `cannot store the identity key ${path}: ${reasonOf(error)}; ${fix}`
    throw new CodedError('IDENTITY_UNWRITABLE', message, { cause: error })
  } finally {
    await unlink(draft).catch(() => {})
  }
}

/**
 * A link never replaces an existing file. If the file system has no links, the lock of the data directory must be
 * enough.
 */
async function linkOrRename(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path)
    return true
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EEXIST') return false
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP' && code !== 'ENOSYS') throw error
    if (await exists(path)) return false
    await rename(draft, path)
    return true
  }
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}

/**
 * Makes the new name survive a power loss. Some platforms cannot open folders; there the system decides when the name
 * is on disk.
 */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined)
  await folder?.sync().catch(() => {})
  await folder?.close()
}

function unreadable(path: string, reason: string, cause?: unknown): CodedError<'IDENTITY_UNREADABLE'> {
  const fix = 'restore it from a backup, or move it away to start with a new identity (agents then get new ids)'
  return new CodedError('IDENTITY_UNREADABLE', `cannot use the identity key ${path}: ${reason}; ${fix}`, { cause })
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code
}
