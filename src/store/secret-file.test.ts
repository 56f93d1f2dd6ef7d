import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { loadOrCreateSecret, modeOf, readSecretFile, tighten, writeSecretFile } from './secret-file.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-secret-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

test('a secret file is 0600 whatever the umask, and no draft is left beside it (D3)', async () => {
  const path = join(dir, 'wallet.key')
  const umask = process.platform === 'win32' ? 0 : process.umask()
  await writeSecretFile(path, 'one', { replace: false })
  await writeSecretFile(path, 'two', { replace: true })
  expect(await readFile(path, 'utf8')).toBe('two')
  expect((await stat(path)).mode & 0o777 & ~umask).toBe(0o600 & ~umask)
  expect(await readdir(dir)).toEqual(['wallet.key'])
})

test('an existing secret is never overwritten by one that is made', async () => {
  const path = join(dir, 'wallet.key')
  await writeFile(path, 'old')
  await expect(writeSecretFile(path, 'new', { replace: false })).rejects.toMatchObject({ code: 'SECRET_FILE_EXISTS' })
  expect(await loadOrCreateSecret(path, () => 'new')).toEqual({ text: 'old', created: false })
  expect(await readdir(dir)).toEqual(['wallet.key'])
})

test('of many that make a secret at once one wins, and all get the same', async () => {
  const path = join(dir, 'api.token')
  let count = 0
  const made = await Promise.all(Array.from({ length: 20 }, () => loadOrCreateSecret(path, () => `secret ${count++}`)))
  expect(new Set(made.map(({ text }) => text)).size).toBe(1)
  expect(made.filter(({ created }) => created)).toHaveLength(1)
  expect(await readdir(dir)).toEqual(['api.token'])
})

test('a missing secret is undefined; one that is a directory or far too large is an error', async () => {
  expect(await readSecretFile(join(dir, 'none'))).toBeUndefined()
  await expect(readSecretFile(dir)).rejects.toMatchObject({ code: 'SECRET_FILE_UNUSABLE' })
  await writeFile(join(dir, 'large'), Buffer.alloc(65 * 1024))
  await expect(readSecretFile(join(dir, 'large'))).rejects.toThrow(/a secret has at most 65536/)
})

test.skipIf(process.platform === 'win32')(
  'rights of others are taken away and told; right ones are left alone',
  async () => {
    const path = join(dir, 'identity.key')
    expect(await tighten(path, 0o600)).toBeUndefined()
    await writeFile(path, 'key')
    await chmod(path, 0o644)
    expect(await tighten(path, 0o600)).toMatch(/could be read by other users \(mode 644\): its mode is now 600$/)
    expect(await modeOf(path)).toBe(0o600)
    expect(await tighten(path, 0o600)).toBeUndefined()
  },
)
