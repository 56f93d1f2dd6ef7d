import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { dataDirError, loadOrCreateApiToken, openDataDir } from './data-dir.ts'
import { modeOf } from './secret-file.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-data-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

describe.skipIf(process.platform === 'win32')('permissions (D3)', () => {
  test('a new directory is 0700', async () => {
    const path = join(dir, 'a', 'b')
    expect(await openDataDir(path)).toEqual({ path, notes: [] })
    expect(await modeOf(path)).toBe(0o700)
    expect(await readdir(path)).toEqual([])
  })

  test('an empty or own directory and the keys in it are closed to others, and that is told', async () => {
    await chmod(dir, 0o755)
    expect((await openDataDir(dir)).notes).toHaveLength(1)
    expect(await modeOf(dir)).toBe(0o700)
    await chmod(dir, 0o777)
    await writeFile(join(dir, 'wallet.key'), 'key')
    await writeFile(join(dir, 'agents.yaml'), 'agents: []')
    await chmod(join(dir, 'wallet.key'), 0o640)
    await chmod(join(dir, 'agents.yaml'), 0o644)
    const { notes } = await openDataDir(dir)
    expect(notes).toHaveLength(2)
    expect(notes[1]).toContain('wallet.key could be read by other users (mode 640)')
    expect(await modeOf(join(dir, 'wallet.key'))).toBe(0o600)
    expect(await modeOf(join(dir, 'agents.yaml'))).toBe(0o644)
  })

  test("a directory of somebody else's files is left as it is, and refused if others can write to it", async () => {
    await writeFile(join(dir, 'thesis.txt'), 'text')
    await chmod(dir, 0o755)
    await openDataDir(dir)
    expect(await modeOf(dir)).toBe(0o755)
    await chmod(dir, 0o1777)
    await expect(openDataDir(dir)).rejects.toThrow(
      `${dir} is shared with other users (mode 1777) and holds other files: give stoa a directory of its own`,
    )
    expect(await readdir(dir)).toEqual(['thesis.txt'])
  })
})

test('a file in the place of the directory, or above it, is refused with the fix (T16)', async () => {
  const file = join(dir, 'file')
  await writeFile(file, '')
  for (const path of [file, join(file, 'under')]) {
    await expect(openDataDir(path)).rejects.toMatchObject({
      code: 'DATA_DIR_UNUSABLE',
      message: expect.stringMatching(/is, or lies under, a file and not a directory: choose another with --data-dir/),
    })
  }
})

test.skipIf(process.platform !== 'linux')('a file system that takes no files is refused (T16)', async () => {
  await expect(openDataDir('/proc/stoa')).rejects.toMatchObject({ code: 'DATA_DIR_UNUSABLE' })
  await expect(openDataDir('/proc/self')).rejects.toMatchObject({ code: 'DATA_DIR_UNUSABLE' })
})

test.skipIf(process.platform === 'win32' || process.getuid?.() === 0)(
  'a directory one may not write to is refused',
  async () => {
    await mkdir(join(dir, 'locked'), { mode: 0o500 })
    await expect(openDataDir(join(dir, 'locked', 'data'))).rejects.toThrow(/may not write to the data directory/)
  },
)

test.each([
  ['EACCES', /may not write .* \(chown\), or choose another/],
  ['EPERM', /may not write/],
  ['EROFS', /read-only file system: choose another/],
  ['ENOSPC', /is full: free some space/],
  ['EDQUOT', /is full: free some space/],
  ['EEXIST', /a file and not a directory/],
  ['EWEIRD', /cannot be used \(EWEIRD: said so\): choose another with --data-dir or NODE_DATA_DIR$/],
])('%s becomes a sentence that says what to do (T16)', (code, sentence) => {
  const error = dataDirError('/data', Object.assign(new Error(`${code}: said so`), { code }))
  expect(error).toMatchObject({ code: 'DATA_DIR_UNUSABLE', message: expect.stringMatching(sentence) })
})

test('the API token is made once, 256 bits, 0600', async () => {
  const token = await loadOrCreateApiToken(dir)
  expect(Buffer.from(token, 'base64url')).toHaveLength(32)
  expect(await loadOrCreateApiToken(dir)).toBe(token)
  if (process.platform !== 'win32') expect(await modeOf(join(dir, 'api.token'))).toBe(0o600)
})

test.each(['', '\n', 'short', 'two words that are long enough', 'ünicode-ünicode-ünicode'])(
  'a token file that holds %j is an error, not a token nobody needs to guess',
  async (text) => {
    await writeFile(join(dir, 'api.token'), text)
    await expect(loadOrCreateApiToken(dir)).rejects.toThrow(
      /holds no usable token .*: delete the file and a new one is made/,
    )
    expect(await readFile(join(dir, 'api.token'), 'utf8')).toBe(text)
  },
)
