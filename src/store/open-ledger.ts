import { stat } from 'node:fs/promises'
import { type Clock, isoTime, systemClock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import type { Logger } from '../lib/logger.ts'
import { checkFinished } from './copy/unfinished.ts'
import { dataFile } from './data-dir.ts'
import { type Database, openDatabase } from './database.ts'
import { damagedError, newerError } from './file-errors.ts'
import { readFacts } from './ledger-facts.ts'
import { copiedError, homeOf, readCopied, readHome, readMet, settleIn, whereaboutsOf } from './ledger-home.ts'
import { ledgerId } from './ledger-id.ts'
import { BOOKS, type LedgerMark, readMark, writeMark } from './ledger-mark.ts'
import { endTurn, RESTORED_TEXT, readTurn, takeTurn } from './ledger-turn.ts'
import { migrations } from './migrations.ts'
import { one, together } from './query.ts'
import { openReadOnly } from './read-only.ts'
import { AT_ONCE_BYTES, checkSoundness } from './soundness.ts'
import type { StoreError } from './store-error.ts'
import { lostFrames } from './wal-loss.ts'

type LedgerOptions = {
  logger: Logger
  /** The operator confirms that no other copy of the ledger is in use. */
  adopt?: boolean
  /** The file that names the machine, if not the system's. */
  machineId?: string
  clock?: Pick<Clock, 'now'>
}

/**
 * Opens the node's ledger database for this process alone. Checks that it is the same ledger as before, complete, and
 * not a copy.
 *
 * @throws CodedError 'LEDGER_LOST' if it is missing, empty, another ledger, or lost its last writes; 'LEDGER_COPIED' if
 * it is a copy of a ledger that may be in use; StoreError
 */
export async function openLedger(dataDir: string, options: LedgerOptions): Promise<Database> {
  const { logger, clock = systemClock } = options
  const path = dataFile(dataDir, 'database')
  const { mark, isThere } = await checkFiles(dataDir)
  const isLogGone = mark?.closed === false && !(await hasBytes(`${path}-wal`))
  if (!isThere && (await hasBytes(dataFile(dataDir, 'identity')))) {
    logger.warn(
      { path },
      'the ledger is new, but the keys beside it are not: if orders or sales were kept here before, stop, and restore the backup',
    )
  }
  const onDamage = (error: StoreError) => logger.error({ err: error }, 'the ledger is damaged: trading has stopped')
  const database = openDatabase({ path, alone: true, onDamage })
  try {
    const id = await ledgerId(database, mark?.ledger)
    checkId(dataDir, mark, id)
    const whole = await checkSoundness(database, path)
    const damage = database.damage()
    if (damage !== undefined) throw damage
    await checkFinished(database)
    const { where, here, last } = await checkHome(database, { dataDir, id, ...options })
    if (where === 'moved') logger.info({ path: here.path }, `the data directory was moved from ${last!.path}`)
    await settleIn(database, here)
    if (!whole) logger.info({ path }, 'the ledger is large: it is still being checked')
    const isReplaced = await isOlderCopy(database, mark, isLogGone)
    const { turn, restored } = await takeTurn(database, { marked: mark?.turn, isReplaced, now: clock.now() })
    if (restored !== undefined) logger.warn({ path, count: restored.ended }, RESTORED_TEXT)
    await writeMark(dataDir, { ledger: id, closed: false, turn })
    return closing(database, (last = turn) => writeMark(dataDir, { ledger: id, closed: true, turn: last }))
  } catch (error) {
    await database.close()
    throw error
  }
}

/**
 * Finds what `openLedger` would refuse, without changing anything, while no node runs on the directory.
 *
 * @returns whether there is a ledger yet
 * @throws what `openLedger` throws
 */
export async function inspectLedger(dataDir: string): Promise<boolean> {
  const path = dataFile(dataDir, 'database')
  const { mark, isThere } = await checkFiles(dataDir)
  const file = isThere ? openReadOnly(path) : undefined
  if (file === undefined) return false
  try {
    if (file.schema > migrations.length) throw newerError(path, file.schema)
    if (!file.has('kv')) return false
    const { id } = await readFacts(file)
    if (id !== undefined) checkId(dataDir, mark, id)
    const damage = (await stat(path)).size <= AT_ONCE_BYTES ? file.damage() : 'ok'
    if (damage !== 'ok') throw damagedError(path, damage)
    await checkFinished(file)
    await checkHome(file, { dataDir, id: id ?? mark?.ledger ?? '' })
    return true
  } finally {
    file.close()
  }
}

/** @throws CodedError LEDGER_LOST */
async function checkFiles(dataDir: string): Promise<{ mark: LedgerMark | undefined; isThere: boolean }> {
  const path = dataFile(dataDir, 'database')
  const mark = await readMark(dataDir)
  const isThere = await hasBytes(path)
  if (mark?.server !== undefined) throw elsewhere(dataDir, mark.server)
  if (mark !== undefined && !isThere) throw lost(dataDir, `${path} is missing or empty`)
  if (mark?.closed === false) {
    const missing = await lostFrames(path)
    if (missing > 0)
      throw lost(dataDir, `${path}-wal was cut off or is damaged: ${missing} pages of what was written last are gone`)
  }
  return { mark, isThere }
}

function checkId(dataDir: string, mark: LedgerMark | undefined, id: string): void {
  if (mark === undefined || mark.ledger === id) return
  throw lost(dataDir, `${dataFile(dataDir, 'database')} is the ledger of another data directory`)
}

type Placed = { dataDir: string; id: string } & Pick<LedgerOptions, 'adopt' | 'machineId'>

/** @throws CodedError LEDGER_COPIED */
async function checkHome(database: Pick<Database, 'query'>, { dataDir, id, ...options }: Placed) {
  const last = await readHome(database)
  const here = await homeOf(dataDir, options.machineId)
  const where = await whereaboutsOf(id, last, here)
  if (where === 'copy') throw copiedError(dataDir, { where, last: last! })
  if (options.adopt !== true) {
    const met = await readMet(database)
    if (met !== undefined) throw copiedError(dataDir, { met: isoTime(met) })
    const copiedTo = await readCopied(database)
    if (copiedTo !== undefined) throw copiedError(dataDir, { copiedTo })
    if (where === 'elsewhere') throw copiedError(dataDir, { where, last: last! })
  }
  return { where, here, last }
}

/**
 * True if the file is an older one than the last start has used, although it has counted as far.
 *
 * A killed process leaves a log of latest writes beside its database. Without the log, the database was replaced. A ledger that has
 * been used, and has no mark beside it, was put into another directory, or the operator has given up what it lacks.
 */
async function isOlderCopy(database: Database, mark: LedgerMark | undefined, isLogGone: boolean): Promise<boolean> {
  const turn = await readTurn(database)
  if (mark !== undefined) return isLogGone && mark.turn === turn
  if (turn === 0) return false
  const held = await database.query(together(...BOOKS.map((table) => one(`SELECT 1 AS one FROM ${table} LIMIT 1`))))
  return held.some((row) => row !== undefined)
}

function closing(database: Database, closed: (turn: number | undefined) => Promise<void>): Database {
  return {
    ...database,
    async close() {
      const turn = await endTurn(database)
      await database.close()
      // This may fail, for example on a full disk. The only effect: the next start checks more.
      await closed(turn).catch(() => {})
    },
  }
}

function lost(dataDir: string, what: string): CodedError<'LEDGER_LOST'> {
  const mark = dataFile(dataDir, 'ledger')
  return new CodedError(
    'LEDGER_LOST',
    `${what}. Restore the backup (docs/operations.md). If there is none, delete ${mark} to go on with what is there: ` +
      'the node then forgets its sales and what it is owed, its budgets start again, and what it has signed may still be charged',
  )
}

function elsewhere(dataDir: string, server: string): CodedError<'LEDGER_LOST'> {
  const back = `To go back to a ledger in ${dataDir}, copy it with stoa ledger copy`
  return new CodedError(
    'LEDGER_LOST',
    `the ledger of ${dataDir} is in PostgreSQL at ${server}: set DATABASE_URL. ${back}`,
  )
}

async function hasBytes(path: string): Promise<boolean> {
  return stat(path).then(
    ({ size }) => size > 0,
    () => false,
  )
}
