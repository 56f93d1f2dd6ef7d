import { randomBytes } from 'node:crypto'
import type { Secrets } from '../config/secrets.ts'
import { PrivateKeyText } from '../config/values.ts'
import { CodedError } from '../lib/errors.ts'
import type { Hex } from '../schema/primitives.ts'
import { dataFile } from '../store/data-dir.ts'
import { loadOrCreateSecret, readSecretFile, writeSecretFile } from '../store/secret-file.ts'

/**
 * The wallet's private key, from the environment or from `wallet.key`, which is created once (D4).
 *
 * @returns created: true if this call made a new wallet, which holds no money yet
 * @throws CodedError 'WALLET_KEY_UNREADABLE', or what secret-file throws. No message holds the key.
 */
export async function loadOrCreateWalletKey(
  dataDir: string,
  secrets: Pick<Secrets, 'walletKey'>,
): Promise<{ key: Hex; created: boolean }> {
  if (secrets.walletKey !== undefined) return { key: secrets.walletKey, created: false }
  const path = dataFile(dataDir, 'wallet')
  const { text, created } = await loadOrCreateSecret(path, () => `${makeKey()}\n`)
  return { key: parseKey(text, path), created }
}

export async function readWalletKey(dataDir: string, secrets: Pick<Secrets, 'walletKey'>): Promise<Hex | undefined> {
  if (secrets.walletKey !== undefined) return secrets.walletKey
  const path = dataFile(dataDir, 'wallet')
  const text = await readSecretFile(path)
  return text === undefined ? undefined : parseKey(text, path)
}

/**
 * True if a node ran on this data directory and its wallet is missing: its key came from a variable that is not set,
 * or the file was lost. @throws as readWalletKey
 */
export async function isWalletMissing(dataDir: string, secrets: Pick<Secrets, 'walletKey'>): Promise<boolean> {
  if ((await readWalletKey(dataDir, secrets)) !== undefined) return false
  return (await readSecretFile(dataFile(dataDir, 'identity'))) !== undefined
}

/** What to tell where a new wallet takes the place of one that is missing. @param before its address, if the ledger knows it */
export const newWalletText = (address: string, before = 'the wallet'): string =>
  `this node ran before, and its wallet is not here: ${address} is a new one, without money. If the key of ${before} ` +
  'came from a variable, set ETHEREUM_PRIVATE_KEY to it again; if wallet.key was lost, restore it'

/** What to tell where another wallet takes the place of the one before. */
export const otherWalletText = (address: string, before: string): string =>
  `this node used the wallet ${before} before, and now uses ${address}. ${walletAdvice(before)}`

export const walletAdvice = (before: string): string =>
  `Money and payment channels of ${before} stay there, and need its key. If you did not mean to change the wallet, stop the ` +
  'node, set ETHEREUM_PRIVATE_KEY or wallet.key to that key again, and start the node'

/** Stores the operator's own key. @throws CodedError 'SECRET_FILE_EXISTS': a wallet is never overwritten */
export async function storeWalletKey(dataDir: string, key: Hex): Promise<void> {
  await writeSecretFile(dataFile(dataDir, 'wallet'), `${key}\n`, { replace: false })
}

function makeKey(): Hex {
  for (;;) {
    // All but one of 2^128 random values lie within the order of the curve.
    const drawn = PrivateKeyText.safeParse(randomBytes(32).toString('hex'))
    if (drawn.success) return drawn.data
  }
}

function parseKey(text: string, path: string): Hex {
  const parsed = PrivateKeyText.safeParse(text)
  if (parsed.success) return parsed.data
  throw new CodedError(
    'WALLET_KEY_UNREADABLE',
    `${path} holds no usable wallet key: restore it from a backup, or move it away to start with a new, empty wallet`,
  )
}
