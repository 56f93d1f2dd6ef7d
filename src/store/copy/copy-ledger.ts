import { createHash } from 'node:crypto'
import { CodedError, reasonOf } from '../../lib/errors.ts'
import { putEntry, removeEntry } from '../entries.ts'
import type { LedgerDatabase } from '../ledger-database.ts'
import { TURN_KEY } from '../ledger-turn.ts'
import { all, nothing, one, type Query, run, steps, together, type Value } from '../query.ts'
import { type LedgerTable, ledgerTables } from './ledger-tables.ts'
import { checkFinished, isUnfinished, UNFINISHED_KEY } from './unfinished.ts'

/** What was copied of one table. */
export type CopiedTable = { table: string; rows: number }

export type CopyOptions = {
  /** Called after each table. */
  copied?(table: CopiedTable): void
  /** Lets the numbers that the target gives go on after those that were copied. */
  numbersFrom?(table: LedgerTable): Query<unknown> | undefined
}

type CopiedRow = Record<string, Value>
/** What two copies of a table are compared by. */
type Summary = { rows: number; sums: string; digest: string }

const BATCH_ROWS = 256
const BATCH_BYTES = 4 * 1024 * 1024
/** Entries of `kv` without those of the listings, of the place where the ledger is, and of how often it was used. */
const ENTRIES = `
  SELECT key, value FROM kv
  WHERE substr(key, 1, 9) <> 'listings.' AND key NOT IN ('ledger_home', 'ledger_copied_to', '${TURN_KEY}', '${UNFINISHED_KEY}')`

/**
 * Copies a ledger into another that is empty, and compares both. Nobody else may use either.
 *
 * Until everything was compared, the target is marked: no node starts on half a ledger. A further copy starts anew.
 *
 * @throws CodedError LEDGER_NOT_EMPTY, LEDGER_COPY_FAILED
 */
export async function copyLedger(
  from: LedgerDatabase,
  to: LedgerDatabase,
  { copied, numbersFrom }: CopyOptions = {},
): Promise<CopiedTable[]> {
  const every = await ledgerTables()
  const tables = every.filter(({ key }) => key.length > 0)
  const counters = every.filter(({ key }) => key.length === 0)
  await checkFinished(from)
  await empty(to, tables)
  const done: CopiedTable[] = []
  for (const table of tables) {
    const rows = await copyTable(from, to, table)
    done.push({ table: table.name, rows })
    copied?.({ table: table.name, rows })
  }
  await copyEntries(from, to)
  for (const table of counters) await copyCounter(from, to, table)
  for (const table of tables) await to.commit(numbersFrom?.(table) ?? nothing(undefined))
  for (const table of tables) await compare(from, to, table)
  await to.commit(removeEntry(UNFINISHED_KEY))
  return done
}

/** Marks the target. Removes what a copy that was not finished has left. */
async function empty(to: LedgerDatabase, tables: readonly LedgerTable[]): Promise<void> {
  if (await isUnfinished(to)) {
    for (const { name } of tables.toReversed()) await to.commit(run(`DELETE FROM ${name}`))
  }
  const held = await to.query(together(...tables.map(({ name }) => one(`SELECT 1 AS held FROM ${name} LIMIT 1`))))
  const full = tables.filter((_, index) => held[index] !== undefined).map(({ name }) => name)
  if (full.length > 0) {
    const named =
      full.length > 3 ? `${full.slice(0, 3).join(', ')} and ${full.length - 3} more tables` : full.join(', ')
    const done = 'if an earlier copy is complete there, start the node on the target'
    const fix = `${done}; else copy into a new data directory or a new database. Nothing was changed`
    throw new CodedError('LEDGER_NOT_EMPTY', `the target already holds a ledger (${named}): ${fix}`)
  }
  await to.commit(putEntry(UNFINISHED_KEY, '1'))
}

async function copyTable(from: LedgerDatabase, to: LedgerDatabase, table: LedgerTable): Promise<number> {
  const { name, columns } = table
  const insert = `INSERT INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`
  let count = 0
  for await (const rows of batches(from, table)) {
    try {
      await to.commit(together(...rows.map((row) => run(insert, ...columns.map((column) => row[column]!)))))
    } catch (error) {
      const place = table.key.map((column) => `${column} ${shown(rows[0]![column]!)}`).join(', ')
      const what = `rows of ${name} from ${place} on cannot be stored in the target: ${reasonOf(error)}`
      throw new CodedError('LEDGER_COPY_FAILED', what, { cause: error })
    }
    count += rows.length
  }
  return count
}

/** The rows of a table in the order of its key. A batch is short if its texts are long. */
async function* batches(database: LedgerDatabase, table: LedgerTable): AsyncGenerator<CopiedRow[]> {
  const { name, columns, key, long } = table
  const order = key.join(', ')
  const length = long.length === 0 ? '0' : long.map((column) => `coalesce(length(${column}), 0)`).join(' + ')
  let last: Value[] = []
  for (;;) {
    const after = last.length === 0 ? '' : `WHERE (${order}) > (${key.map(() => '?').join(', ')})`
    const rest = `FROM ${name} ${after} ORDER BY ${order} LIMIT ?`
    const sizes = await database.query(all<{ bytes: number }>(`SELECT ${length} AS bytes ${rest}`, ...last, BATCH_ROWS))
    if (sizes.length === 0) return
    const rows = await database.query(all<CopiedRow>(`SELECT ${columns.join(', ')} ${rest}`, ...last, fitting(sizes)))
    yield rows
    last = key.map((column) => rows.at(-1)![column]!)
  }
}

/** How many rows fit into a batch: at least one. */
function fitting(sizes: readonly { bytes: number }[]): number {
  let bytes = 0
  const over = sizes.findIndex((size, index) => {
    bytes += size.bytes
    return index > 0 && bytes > BATCH_BYTES
  })
  return over === -1 ? sizes.length : over
}

async function copyEntries(from: LedgerDatabase, to: LedgerDatabase): Promise<void> {
  const entries = await from.query(all<{ key: string; value: string }>(ENTRIES))
  await to.commit(together(...entries.map(({ key, value }) => putEntry(key, value))))
}

/** A table with one row. */
async function copyCounter(from: LedgerDatabase, to: LedgerDatabase, { name, columns }: LedgerTable): Promise<void> {
  const row = await from.query(one<CopiedRow>(`SELECT ${columns.join(', ')} FROM ${name}`))
  if (row === undefined) return
  const put = columns.map((column) => `${column} = ?`).join(', ')
  await to.commit(run(`UPDATE ${name} SET ${put}`, ...columns.map((column) => row[column]!)))
}

async function compare(from: LedgerDatabase, to: LedgerDatabase, table: LedgerTable): Promise<void> {
  const [source, target] = [await summaryOf(from, table), await summaryOf(to, table)]
  const differ = (['rows', 'sums', 'digest'] as const).filter((what) => source[what] !== target[what])
  if (differ.length === 0) return
  const what = `${table.name} is not the same in source and target (${differ.join(', ')})`
  throw new CodedError('LEDGER_COPY_FAILED', `${what}: did something write to either? Run the copy again`)
}

async function summaryOf(database: LedgerDatabase, table: LedgerTable): Promise<Summary> {
  const counted = await database.query(countsOf(table))
  // Added up, as the two engines may order texts in different ways.
  let digest = 0n
  for await (const rows of batches(database, table)) {
    for (const row of rows) digest += BigInt(`0x${digestOf(row, table)}`)
  }
  return { ...counted, digest: digest.toString(16) }
}

function countsOf({ name, amounts }: LedgerTable): Query<{ rows: number; sums: string }> {
  return steps(function* () {
    const sums = amounts.map((column) => `, CAST(coalesce(sum(${column}), 0) AS TEXT) AS ${column}`).join('')
    const { rows, ...rest } = (yield* one<{ rows: number }>(`SELECT count(*) AS rows${sums} FROM ${name}`))!
    return { rows, sums: JSON.stringify(rest) }
  })
}

function digestOf(row: CopiedRow, { columns }: LedgerTable): string {
  const values = columns.map((column) => {
    const value = row[column]!
    return value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('hex') } : value
  })
  return createHash('sha256').update(JSON.stringify(values)).digest('hex')
}

function shown(value: Value): string {
  return value instanceof Uint8Array ? `0x${Buffer.from(value).toString('hex')}` : String(value)
}
