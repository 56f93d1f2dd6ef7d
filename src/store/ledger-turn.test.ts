import { copyFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import type { Database } from './database.ts'
import { readRestored } from './ledger-turn.ts'
import { openLedger } from './open-ledger.ts'
import { type Order, putOrder } from './order-row.ts'
import { all } from './query.ts'

const NOW = 1_700_000_000_000
let dir: string
let warned: string[]
const logger = { ...silentLogger, warn: (_fields: object, message: string) => void warned.push(message) }
const open = (dataDir = dir) => openLedger(dataDir, { logger, clock: { now: () => NOW } })
const isTold = () => warned.some((text) => text.includes('restored from a backup'))

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-turn-'))
  warned = []
})
afterEach(() => rm(dir, { recursive: true }))

function orderOf(id: string, task: string | undefined): Order {
  const blank = {
    sellerId: undefined,
    output: undefined,
    error: undefined,
    correlationId: undefined,
    tokenId: undefined,
  }
  return { id, agentId: 'agent', price: 10n, task, status: 'pending', ...blank, createdAt: NOW, updatedAt: NOW }
}

const place = (database: Database, id: string, task: string | undefined = 'count') =>
  database.commit(putOrder(orderOf(id, task), database.process))

const statesOf = (database: Database) =>
  database.query(
    all<{ id: string; status: string; error: string | null }>('SELECT id, status, error FROM orders ORDER BY no'),
  )

const backUp = (database: Database, name: string) => {
  const path = join(dir, name)
  database.prepare('VACUUM INTO ?').run(path)
  return path
}

/** As docs/operations.md says. */
async function putBack(copy: string): Promise<void> {
  for (const end of ['-wal', '-shm']) await rm(join(dir, `stoa.db${end}`), { force: true })
  copyFileSync(copy, join(dir, 'stoa.db'))
}

test('T33 a start and a stop are no restored ledger', async () => {
  const first = await open()
  await place(first, 'one')
  await first.close()
  const second = await open()
  expect((await statesOf(second)).map(({ status }) => status)).toEqual(['pending'])
  expect(await readRestored(second)).toBeUndefined()
  await second.close()
  expect(isTold()).toBe(false)
})

test('T16 T33 an order that may have been bought since the backup is not bought again', async () => {
  const node = await open()
  await place(node, 'asked')
  await node.commit(putOrder(orderOf('without a task', undefined), node.process))
  const copy = backUp(node, 'copy.db')
  await node.close()
  await putBack(copy)

  const restored = await open()
  expect(isTold()).toBe(true)
  expect(await readRestored(restored)).toBe(NOW)
  expect(await statesOf(restored)).toEqual([
    { id: 'asked', status: 'failed', error: expect.stringContaining('LEDGER_RESTORED') },
    { id: 'without a task', status: 'pending', error: null },
  ])
  // What is placed after that is nobody's doubt, also after the next start.
  await place(restored, 'later')
  await restored.close()
  const again = await open()
  expect((await statesOf(again)).at(-1)).toMatchObject({ id: 'later', status: 'pending' })
  await again.close()
})

test('T16 T33 a backup that is put back after a kill is noticed, and a kill alone is not', async () => {
  const node = await open()
  await place(node, 'asked')
  const copy = backUp(node, 'copy.db')
  const killed = join(dir, 'killed')
  await mkdir(killed)
  for (const name of ['stoa.db', 'stoa.db-wal', 'stoa.db-shm', 'ledger.json']) {
    copyFileSync(join(dir, name), join(killed, name))
  }
  await node.close()
  await rm(join(dir, 'stoa.db'))
  // Opened as it was left, and then once more with the backup in place of the file that was left.
  const rest = join(dir, 'rest')
  await cp(killed, rest, { recursive: true })
  const again = await open(killed)
  expect((await statesOf(again)).map(({ status }) => status)).toEqual(['pending'])
  await again.close()
  await rm(join(killed, 'stoa.db'))
  expect(isTold()).toBe(false)

  for (const end of ['-wal', '-shm']) await rm(join(rest, `stoa.db${end}`))
  copyFileSync(copy, join(rest, 'stoa.db'))
  const restored = await open(rest)
  expect((await statesOf(restored)).map(({ status }) => status)).toEqual(['failed'])
  expect(isTold()).toBe(true)
  await restored.close()
})

test('T16 T33 a backup in a new directory is noticed', async () => {
  const node = await open()
  await place(node, 'asked')
  const copy = backUp(node, 'copy.db')
  await node.close()
  await rm(join(dir, 'stoa.db'))
  const other = join(dir, 'other')
  await mkdir(other)
  copyFileSync(copy, join(other, 'stoa.db'))
  const restored = await open(other)
  expect((await statesOf(restored)).map(({ status }) => status)).toEqual(['failed'])
  await restored.close()
})
