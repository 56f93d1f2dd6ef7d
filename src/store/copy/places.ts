import { stat } from 'node:fs/promises'
import { CodedError } from '../../lib/errors.ts'
import { silentLogger } from '../../lib/logger.ts'
import { dataFile, openDataDir } from '../data-dir.ts'
import { type Database, openDatabase } from '../database.ts'
import type { LedgerDatabase } from '../ledger-database.ts'
import { ledgerId } from '../ledger-id.ts'
import { writeMark } from '../ledger-mark.ts'
import { lockDataDir } from '../lock.ts'
import { openLedger } from '../open-ledger.ts'
import type { FoundLedger } from '../postgres/look.ts'
import { migrations } from '../postgres/migrations.ts'
import { one, type Query } from '../query.ts'
import { openServerLedger, serverName } from '../server-ledger.ts'
import { checkSoundness } from '../soundness.ts'
import type { LedgerTable } from './ledger-tables.ts'

/** Where a ledger is: in a data directory, in a file of SQLite, or in PostgreSQL. */
export type LedgerPlace = { kind: 'directory' | 'file'; path: string } | { kind: 'server'; url: string }

/** A ledger that nobody else uses. */
export type OpenPlace = {
  database: LedgerDatabase
  /** For people. Holds nothing secret. */
  name: string
  numbersFrom?(table: LedgerTable): Query<unknown> | undefined
  /** Called when a ledger was copied into it. */
  done(): Promise<void>
  close(): Promise<void>
}

const logger = silentLogger

/** @throws CodedError if there is no ledger, StoreError and CodedError if it is in use or damaged */
export async function openSource(place: LedgerPlace): Promise<OpenPlace> {
  if (place.kind === 'server') return openServer(place.url)
  const path = place.kind === 'directory' ? dataFile(place.path, 'database') : place.path
  if (!(await isFile(path))) throw new CodedError('FAILED', `there is no ledger in ${place.path}`)
  if (place.kind === 'directory') return openLocked(place.path, () => openLedger(place.path, { logger }))
  const database = openDatabase({ path, alone: true })
  await checkSoundness(database, path)
  const damage = database.damage()
  if (damage === undefined) return { ...plain(database), name: path }
  await database.close()
  throw damage
}

/** @throws StoreError and CodedError if it is in use, or cannot be written */
export async function openTarget(place: LedgerPlace): Promise<OpenPlace> {
  if (place.kind === 'server') return openServer(place.url, async (found) => checkEarlier(found, serverName(place.url)))
  if (place.kind === 'file') return { ...plain(openDatabase({ path: place.path, alone: true })), name: place.path }
  const { path } = place
  await openDataDir(path)
  const open = async () => openDatabase({ path: dataFile(path, 'database'), alone: true })
  const target = await openLocked(path, open)
  const { database } = target
  const done = async () => writeMark(path, { ledger: await ledgerId(database), closed: true })
  return { ...target, done }
}

function plain(database: Database): Pick<OpenPlace, 'database' | 'done' | 'close'> {
  return { database, done: async () => {}, close: () => database.close() }
}

async function openLocked(dataDir: string, open: () => Promise<Database>): Promise<OpenPlace> {
  const lock = lockDataDir(dataDir)
  try {
    const opened = plain(await open())
    const close = () => opened.close().finally(() => lock.release())
    return { ...opened, name: dataDir, close }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** A ledger is refused as a target when it is looked into. One of an earlier version would be changed for that. */
function checkEarlier({ schema = 0, facts }: FoundLedger, server: string): void {
  if (facts?.owner === undefined || facts.isUnfinished || schema >= migrations.length) return
  const what = `PostgreSQL at ${server} holds the ledger of the seller ${facts.owner.seller}`
  throw new CodedError('LEDGER_NOT_EMPTY', `${what}: copy into a new data directory or a new database`)
}

async function openServer(url: string, check?: (found: FoundLedger) => Promise<void>): Promise<OpenPlace> {
  const { database } = await openServerLedger(url, { logger, isAlone: true, ...(check && { check }) })
  const name = `PostgreSQL at ${serverName(url)}`
  return { database, name, numbersFrom, done: async () => {}, close: () => database.close() }
}

/** PostgreSQL counts on by itself only from numbers that it has given. */
function numbersFrom({ name, number }: LedgerTable): Query<unknown> | undefined {
  if (number === undefined) return undefined
  return one(`
    SELECT setval(pg_get_serial_sequence('${name}', '${number}'), coalesce(max(${number}), 0) + 1, false) AS next FROM ${name}`)
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (entry) => entry.isFile() && entry.size > 0,
    () => false,
  )
}
