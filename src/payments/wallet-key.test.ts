import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { modeOf } from '../store/secret-file.ts'
import { isWalletMissing, loadOrCreateWalletKey, readWalletKey } from './wallet-key.ts'

const fromEnvironment = { walletKey: `0x${'1'.repeat(64)}` } as const
const none = { walletKey: undefined }
let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-wallet-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

test('a wallet key is made once, 0600, and kept (D3, D4)', async () => {
  expect(await readWalletKey(dir, none)).toBeUndefined()
  const { key, created } = await loadOrCreateWalletKey(dir, none)
  expect(key).toMatch(/^0x[0-9a-f]{64}$/)
  expect(created).toBe(true)
  expect(await loadOrCreateWalletKey(dir, none)).toEqual({ key, created: false })
  expect(await readWalletKey(dir, none)).toBe(key)
  if (process.platform !== 'win32') expect(await modeOf(join(dir, 'wallet.key'))).toBe(0o600)
})

test('a node that ran before and has no wallet any more is known by its identity', async () => {
  expect(await isWalletMissing(dir, none)).toBe(false)
  await writeFile(join(dir, 'identity.key'), 'any')
  expect(await isWalletMissing(dir, none)).toBe(true)
  expect(await isWalletMissing(dir, fromEnvironment)).toBe(false)
  await loadOrCreateWalletKey(dir, none)
  expect(await isWalletMissing(dir, none)).toBe(false)
})

test('a key from the environment is used and never written down', async () => {
  expect(await loadOrCreateWalletKey(dir, fromEnvironment)).toEqual({ key: fromEnvironment.walletKey, created: false })
  expect(await readWalletKey(dir, fromEnvironment)).toBe(fromEnvironment.walletKey)
  expect(await readdir(dir)).toEqual([])
})

test.each(['', 'hunter2', `0x${'0'.repeat(64)}`, 'f'.repeat(64)])(
  'a file that holds %j is refused, kept as it is, and not shown (T21)',
  async (text) => {
    await writeFile(join(dir, 'wallet.key'), text)
    const error = await loadOrCreateWalletKey(dir, none).catch((thrown: unknown) => thrown as Error)
    expect(error).toMatchObject({ code: 'WALLET_KEY_UNREADABLE' })
    expect((error as Error).message).toMatch(/wallet\.key holds no usable wallet key: restore it from a backup/)
    if (text !== '') expect((error as Error).message).not.toContain(text)
    expect(await readFile(join(dir, 'wallet.key'), 'utf8')).toBe(text)
  },
)
