import { createHash } from 'node:crypto'
import { readFile, realpath, stat } from 'node:fs/promises'
import * as z from 'zod'
import type { UnixMs } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { dataFile } from './data-dir.ts'
import { entry, putEntry } from './entries.ts'
import { isSameFile } from './file-place.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { type Query, run, together } from './query.ts'
import { readSecretFile } from './secret-file.ts'

/** Where a ledger was last used. Stored in the ledger itself, so that a copy includes it. */
const Home = z.object({
  /** Path of the data directory. */
  path: z.string().max(4096),
  /** The inode of the database. A copy has another inode. */
  file: z.string().max(40),
  /** A digest of the machine's id. Absent if the system has none, as in most containers. */
  machine: z.string().max(64).optional(),
})
type Home = z.infer<typeof Home>

const HOME_KEY = 'ledger_home'
export const MET_KEY = 'ledger_met_at'
export const COPIED_KEY = 'ledger_copied_to'
const MACHINE_ID = '/etc/machine-id'

/** What an opened ledger is, judged by its stored home. */
type Whereabouts = 'new' | 'home' | 'moved' | 'copy' | 'elsewhere'

/** Where the ledger of a data directory is now. `machineId`: the file that names the machine. */
export async function homeOf(dataDir: string, machineId = MACHINE_ID): Promise<Home> {
  const [path, { ino }, id] = await Promise.all([
    realpath(dataDir),
    stat(dataFile(dataDir, 'database'), { bigint: true }),
    readFile(machineId, 'utf8').catch(() => ''),
  ])
  // Store only a digest, because the id itself must stay on the machine (machine-id(5)).
  const machine = /^[0-9a-f]{32}$/.test(id.trim())
    ? createHash('sha256').update(`stoa ledger ${id.trim()}`).digest('hex')
    : undefined
  return { path, file: String(ino), ...(machine !== undefined && { machine }) }
}

type Readable = Pick<LedgerDatabase, 'query'>

export async function readHome(database: Readable): Promise<Home | undefined> {
  const text = await database.query(entry(HOME_KEY))
  try {
    return Home.safeParse(JSON.parse(text ?? '')).data
  } catch {
    return undefined
  }
}

/** When this node met another node with the same identity and ledger. Undefined if the operator has continued since. */
export async function readMet(database: Readable): Promise<UnixMs | undefined> {
  return metAt(await database.query(entry(MET_KEY)))
}

/** The time in an entry of `MET_KEY`. */
export function metAt(text: string | undefined): UnixMs | undefined {
  const at = Number(text)
  return Number.isSafeInteger(at) && at > 0 ? at : undefined
}

export async function writeMet(database: LedgerDatabase, at: UnixMs): Promise<void> {
  await database.commit(putEntry(MET_KEY, String(at)))
}

/** Where this ledger was copied to, to be used there. Undefined if the operator has continued with this one since. */
export async function readCopied(database: Readable): Promise<string | undefined> {
  return database.query(entry(COPIED_KEY))
}

export async function writeCopied(database: LedgerDatabase, to: string): Promise<void> {
  await database.commit(putEntry(COPIED_KEY, to))
}

/** Records that no other node uses this ledger, and that no copy of it is in use. */
export function forgetOthers(): Query<unknown> {
  return run(`DELETE FROM kv WHERE key IN ('${MET_KEY}', '${COPIED_KEY}')`)
}

/** Records that the ledger is at home here and that no other node uses it. */
export async function settleIn(database: LedgerDatabase, home: Home): Promise<void> {
  const text = JSON.stringify(home)
  const [stored, met, copied] = await Promise.all([
    database.query(entry(HOME_KEY)),
    readMet(database),
    readCopied(database),
  ])
  if (stored === text && met === undefined && copied === undefined) return
  await database.commit(together(putEntry(HOME_KEY, text), forgetOthers()))
}

/**
 * Decides if a ledger is where it was last used, was moved, or is a copy.
 *
 * A ledger is moved if it is gone from its old path. The same path on another machine may be a disk or volume that was
 * moved there, which keeps the inode. With another inode it is a copy. Without a machine id only paths are compared.
 */
export async function whereaboutsOf(ledgerId: string, last: Home | undefined, here: Home): Promise<Whereabouts> {
  if (last === undefined) return 'new'
  const isSameMachine = last.machine === undefined || here.machine === undefined || last.machine === here.machine
  if (last.path === here.path) return isSameMachine || last.file === here.file ? 'home' : 'elsewhere'
  if (!isSameMachine) return 'elsewhere'
  return (await holds(last.path, ledgerId, here.path)) ? 'copy' : 'moved'
}

/** True if a data directory still holds the ledger in its own file. Does not open the database there. */
async function holds(path: string, ledgerId: string, here: string): Promise<boolean> {
  try {
    const mark = JSON.parse((await readSecretFile(dataFile(path, 'ledger'))) ?? '{}') as { ledger?: unknown }
    if (mark.ledger !== ledgerId) return false
    const file = (dir: string) => stat(dataFile(dir, 'database'), { bigint: true })
    const [there, own] = await Promise.all([file(path), file(here)])
    // The same directory may be seen under two paths.
    return there.size > 0n && !isSameFile(there, own)
  } catch {
    return false
  }
}

/** The risk for an operator who continues with a copy. */
export const COPY_RISK =
  'What was bought and sold with the other copy is in no book here: budgets do not count it, its results cannot be fetched, ' +
  'and what it has signed may still be charged'

/** @param met when another node with this identity was met */
export function copiedError(
  dataDir: string,
  found: { where: 'copy' | 'elsewhere'; last: Home } | { met: string } | { copiedTo: string; from?: string },
): CodedError<'LEDGER_COPIED'> {
  const adopt = `stop the other node for good and run: stoa ledger adopt --data-dir ${dataDir}`
  const two = 'Two nodes with one identity and one wallet pay twice and sell twice'
  if ('met' in found) {
    const what = `another node with the identity of ${dataDir} was met at ${found.met}`
    return new CodedError('LEDGER_COPIED', `${what}. ${two}. To continue with this one, ${adopt}. ${COPY_RISK}`)
  }
  if ('copiedTo' in found) {
    const what = `the ledger in ${found.from ?? dataDir} was copied to ${found.copiedTo}, to be used there`
    const go = `To go on there, ${found.copiedTo.startsWith('/') ? 'start the node with --data-dir' : 'set DATABASE_URL'}`
    return new CodedError('LEDGER_COPIED', `${what}. ${go}. ${two}. To continue with this one, ${adopt}. ${COPY_RISK}`)
  }
  const { path } = found.last
  if (found.where === 'elsewhere') {
    const what = `the ledger in ${dataDir} was last used on another machine (there in ${path}), so it may be a copy of one that is in use`
    return new CodedError('LEDGER_COPIED', `${what}. ${two}. To continue with this one, ${adopt}. ${COPY_RISK}`)
  }
  const there = dataFile(path, 'database')
  const go = `To continue with this one, stop the other node for good and put its ledger away: mv ${there} ${there}.old`
  return new CodedError(
    'LEDGER_COPIED',
    `the ledger in ${dataDir} is a copy of the one in ${path}, which is still there. ${two}. Start the node on ${path}. ${go}. ${COPY_RISK}`,
  )
}
