import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { lockDataDir, lockHolder } from '../../src/store/lock.ts'

const holdLock = new URL('../support/hold-lock.ts', import.meta.url).pathname
let dir: string
let children: ChildProcess[]

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-lock-'))
  children = []
})
afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await rm(dir, { recursive: true, force: true })
})

/** Starts a process that takes the lock; resolves with the first line it says. */
async function startHolder(): Promise<{ child: ChildProcess; said: string }> {
  const child = spawn(process.execPath, ['--no-warnings', holdLock, dir], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  const [chunk] = (await once(child.stdout!, 'data')) as [Buffer]
  return { child, said: chunk.toString().trim() }
}

test('a second process is refused with the pid of the first (D3, T16)', async () => {
  const { child, said } = await startHolder()
  expect(said).toBe('held')
  const message = `another stoa (pid ${child.pid}) uses ${dir}: stop it, or choose another --data-dir`
  expect((await startHolder()).said).toBe(message)
  expect(() => lockDataDir(dir)).toThrow(expect.objectContaining({ code: 'DATA_DIR_LOCKED', message }))
})

test('a lock goes with its process: after SIGKILL the next one takes it at once (T16)', async () => {
  for (let round = 0; round < 3; round++) {
    const { child, said } = await startHolder()
    expect(said).toBe('held')
    child.kill('SIGKILL')
    await once(child, 'exit')
    // The killed one has left its pid behind; nobody takes it for the holder's.
    expect(await readdir(dir)).toContain('lock.pid')
    expect(lockHolder(dir)).toBeUndefined()
  }
  lockDataDir(dir).release()
})

test('a released lock can be taken again, by this process and by another', async () => {
  const lock = lockDataDir(dir)
  expect((await startHolder()).said).toMatch(`another stoa (pid ${process.pid}) uses`)
  expect(() => lockDataDir(dir)).toThrow(/another stoa/)
  lock.release()
  expect(await readdir(dir)).toEqual(['lock.db'])
  const { child, said } = await startHolder()
  expect(said).toBe('held')
  lock.release()
  expect(() => lockDataDir(dir)).toThrow(/another stoa/)
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
  lockDataDir(dir).release()
})

test('a pid of nobody, or no pid, beside a held lock is not named', async () => {
  const lock = lockDataDir(dir)
  for (const text of ['', 'x', '-1', '999999999']) {
    await writeFile(join(dir, 'lock.pid'), text)
    expect(() => lockDataDir(dir)).toThrow(`another stoa uses ${dir}: stop it`)
  }
  lock.release()
})

test('a directory that cannot hold a lock is refused with the reason', async () => {
  expect(() => lockDataDir(join(dir, 'nowhere'))).toThrow(expect.objectContaining({ code: 'DATA_DIR_UNUSABLE' }))
  await writeFile(join(dir, 'lock.db'), 'garbage '.repeat(1000))
  expect(() => lockDataDir(dir)).toThrow(/lock\.db is damaged: delete it while no stoa runs/)
})

test.skipIf(process.platform !== 'linux')('a lock that a full disk refuses says to free some space (T16)', async () => {
  await symlink('/dev/full', join(dir, 'lock.pid'))
  expect(() => lockDataDir(dir)).toThrow(/is full: free some space, or choose another with --data-dir/)
})
