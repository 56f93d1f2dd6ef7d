import { cp, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { writeMet } from './ledger-home.ts'
import { openLedger } from './open-ledger.ts'

let root: string
let home: string
let told: string[]
const logger = {
  ...silentLogger,
  info: (_: object, message: string) => void told.push(message),
  warn: (_: object, message: string) => void told.push(message),
}
const machine = (name: string) => join(root, `machine-${name}`)

/** Opens and closes a ledger on a machine. */
async function use(dataDir: string, on = 'one', options: { adopt?: boolean } = {}): Promise<void> {
  await (await openLedger(dataDir, { logger, machineId: machine(on), ...options })).close()
}

const isCopied = { code: 'LEDGER_COPIED' }

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'stoa-home-'))
  home = join(root, 'home')
  told = []
  await mkdir(home)
  await writeFile(machine('one'), `${'1'.repeat(32)}\n`)
  await writeFile(machine('two'), `${'2'.repeat(32)}\n`)
  await use(home)
})
afterEach(() => rm(root, { recursive: true }))

describe('T33: a ledger', () => {
  test('opens where it was used last, also after its machine got another id', async () => {
    await use(home)
    await use(home, 'two')
    await use(home, 'nameless')
    expect(told).toEqual([])
  })

  test('that was moved on its machine opens, and says so once', async () => {
    const moved = join(root, 'moved')
    await rename(home, moved)
    await use(moved)
    await use(moved)
    expect(told).toEqual([`the data directory was moved from ${home}`])
  })

  test('that is a copy beside the one in use is refused, with the way on; the other one opens', async () => {
    const copy = join(root, 'copy')
    await cp(home, copy, { recursive: true })
    const there = join(home, 'stoa.db')
    await expect(use(copy)).rejects.toMatchObject({
      ...isCopied,
      message: expect.stringContaining(`mv ${there} ${there}.old`),
    })
    await expect(use(copy, 'one', { adopt: true })).rejects.toMatchObject(isCopied)
    await use(home)

    await rename(there, `${there}.old`)
    await use(copy)
    // Whoever goes back to the first one is asked for the one it has put away.
    await expect(use(home)).rejects.toMatchObject({ code: 'LEDGER_LOST' })
  })

  test('that is a copy is refused on a machine that has no id as well', async () => {
    const copy = join(root, 'copy')
    await cp(home, copy, { recursive: true })
    await expect(use(copy, 'nameless')).rejects.toMatchObject(isCopied)
  })

  test('from another machine is refused until its operator says that no other copy is used', async () => {
    const copy = join(root, 'copy')
    await cp(home, copy, { recursive: true })
    await rm(home, { recursive: true })
    await expect(use(copy, 'two')).rejects.toMatchObject({
      ...isCopied,
      message: expect.stringMatching(/another machine.*stoa ledger adopt --data-dir .*budgets do not count it/s),
    })
    await use(copy, 'two', { adopt: true })
    await use(copy, 'two')
  })

  test('at the same path on another machine opens with its disk alone: a copy is another file', async () => {
    await use(home, 'two')
    await cp(home, join(root, 'copy'), { recursive: true })
    await rename(home, join(root, 'away'))
    await rename(join(root, 'copy'), home)
    await expect(use(home, 'one')).rejects.toMatchObject(isCopied)
  })

  test('of which a second node was met stays shut until its operator goes on', async () => {
    const database = await openLedger(home, { logger, machineId: machine('one') })
    await writeMet(database, Date.UTC(2026, 0, 1))
    await database.close()
    await expect(use(home)).rejects.toMatchObject({
      ...isCopied,
      message: expect.stringMatching(/was met at 2026-01-01.*stoa ledger adopt/s),
    })
    await use(home, 'one', { adopt: true })
    await use(home)
  })

  test('is looked for at its old place without a file being made there', async () => {
    const moved = join(root, 'moved')
    await cp(home, moved, { recursive: true })
    await rm(join(home, 'stoa.db'))
    await use(moved)
    await expect(stat(join(home, 'stoa.db'))).rejects.toThrow(/ENOENT/)
  })
})
