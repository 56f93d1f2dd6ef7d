import { closeSync, copyFileSync, openSync, renameSync, statSync, truncateSync, writeSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { silentLogger } from '../lib/logger.ts'
import { type Database, openDatabase } from './database.ts'
import { openLedger } from './open-ledger.ts'
import { checkSoundness } from './soundness.ts'

const PAGE_BYTES = 8192
let dir: string
let path: string
let warned: string[]
const logger = { ...silentLogger, warn: (_fields: object, message: string) => void warned.push(message) }
const open = (dataDir = dir) => openLedger(dataDir, { logger })
const put = (database: Database, count: number) =>
  database.write(() => {
    for (let n = 0; n < count; n++) {
      database.prepare('INSERT OR REPLACE INTO kv VALUES (?, ?)').run(`key ${n}`, 'x'.repeat(1000))
    }
  })
const count = (database: Database) =>
  (database.prepare(`SELECT count(*) AS n FROM kv WHERE key LIKE 'key %'`).get() as { n: number }).n

/** The files as they are on disk while the database is open: as a kill leaves them. Opened once those here are away. */
async function copyTo(target: string): Promise<void> {
  await mkdir(target)
  for (const name of ['stoa.db', 'stoa.db-wal', 'stoa.db-shm', 'ledger.json'])
    copyFileSync(join(dir, name), join(target, name))
}

/** Ruins the pages of the second half: those of the schema come first. */
function ruin(file: string): void {
  const end = statSync(file).size
  const descriptor = openSync(file, 'r+')
  for (let at = Math.floor(end / PAGE_BYTES / 2) * PAGE_BYTES; at < end; at += PAGE_BYTES)
    writeSync(descriptor, Buffer.alloc(512, 0xa5), 0, 512, at)
  closeSync(descriptor)
}

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-ledger-'))
  path = join(dir, 'stoa.db')
  warned = []
})
afterEach(() => rm(dir, { recursive: true }))

describe('T33: a ledger', () => {
  test('opens again after it was closed, and after its process was killed', async () => {
    const first = await open()
    await put(first, 10)
    await copyTo(join(dir, 'killed'))
    await first.close()
    for (const dataDir of [dir, join(dir, 'killed')]) {
      const again = await open(dataDir)
      expect(count(again)).toBe(10)
      await again.close()
      await rm(join(dataDir, 'stoa.db'))
    }
    expect(warned).toEqual([])
  })

  test.each([
    ['missing', () => rm(path)],
    ['empty', () => writeFile(path, '')],
    [
      'that of another directory',
      async () => {
        await mkdir(join(dir, 'other'))
        await (await open(join(dir, 'other'))).close()
        renameSync(join(dir, 'other', 'stoa.db'), path)
      },
    ],
  ])('that is %s is not accepted in silence; the operator may go on without it', async (_what, lose) => {
    await (await open()).close()
    await lose()
    await expect(open()).rejects.toMatchObject({
      code: 'LEDGER_LOST',
      message: expect.stringMatching(/restore the backup.*delete .*ledger\.json/is),
    })
    await rm(join(dir, 'ledger.json'))
    await (await open()).close()
  })

  test('that is new beside older keys is reported', async () => {
    await writeFile(join(dir, 'identity.key'), 'x')
    await (await open()).close()
    expect(warned).toEqual([expect.stringContaining('the ledger is new, but the keys beside it are not')])
  })

  /** A directory as a killed process leaves it, with its log of latest writes. */
  async function leftByKill() {
    const killed = join(dir, 'killed')
    const database = await open()
    await put(database, 50)
    await copyTo(killed)
    await database.close()
    return { killed, log: join(killed, 'stoa.db-wal') }
  }

  test('whose log of latest writes was cut off or is gone is not accepted in silence', async () => {
    const { killed, log } = await leftByKill()
    const whole = statSync(log).size
    for (const size of [whole - 1, 32 + PAGE_BYTES, 0]) {
      truncateSync(log, size)
      await expect(open(killed)).rejects.toMatchObject({
        code: 'LEDGER_LOST',
        message: expect.stringMatching(/-wal was cut off/),
      })
    }
    await rm(log)
    await expect(open(killed)).rejects.toMatchObject({ code: 'LEDGER_LOST' })
    // As a backup is put back: see docs/operations.md.
    await rm(`${log.slice(0, -4)}-shm`)
    copyFileSync(path, join(killed, 'stoa.db'))
    await rm(path)
    const restored = await open(killed)
    expect(count(restored)).toBe(50)
    await restored.close()
  })

  test.each([
    ['first', 32 + 24 + 100],
    ['last', -100],
  ])('in whose log of latest writes the %s page is damaged is not accepted in silence', async (_, place) => {
    const { killed, log } = await leftByKill()
    const descriptor = openSync(log, 'r+')
    writeSync(descriptor, Buffer.from([0xa5]), 0, 1, place < 0 ? statSync(log).size + place : place)
    closeSync(descriptor)
    await expect(open(killed)).rejects.toMatchObject({
      code: 'LEDGER_LOST',
      message: expect.stringMatching(/-wal was cut off or is damaged/),
    })
  })

  test('with a page that is damaged is refused at the start', async () => {
    const database = await open()
    await put(database, 2000)
    await database.close()
    ruin(path)
    await expect(open()).rejects.toMatchObject({
      code: 'STORE_DAMAGED',
      message: expect.stringContaining('restore a backup'),
    })
  })

  test('that is large is checked in a thread, within a limit and then behind', async () => {
    const database = await open()
    await put(database, 2000)
    await database.close()
    const sound = openDatabase({ path })
    expect(await checkSoundness(sound, path, { atOnceBytes: 0 })).toBe(true)
    expect(sound.damage()).toBeUndefined()
    await sound.close()
    ruin(path)
    const ruined = openDatabase({ path })
    expect(await checkSoundness(ruined, path, { atOnceBytes: 0, limitMs: 0 })).toBe(false)
    await until(() => ruined.damage())
    await expect(put(ruined, 1)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    await ruined.close()
  })

  test('found damaged by a read accepts no more writes', async () => {
    const database = await open()
    await put(database, 2000)
    await database.close()
    ruin(path)
    const told: string[] = []
    const ruined = openDatabase({ path, onDamage: ({ code }) => void told.push(code) })
    expect(() => ruined.prepare('SELECT * FROM kv').all()).toThrow(expect.objectContaining({ code: 'STORE_DAMAGED' }))
    await expect(ruined.write(() => 1)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    expect(told).toEqual(['STORE_DAMAGED'])
    await ruined.close()
  })
})
