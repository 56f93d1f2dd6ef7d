import { StoreError } from '../store-error.ts'
import type { Outcome } from './batch.ts'
import type { Connection } from './connection.ts'
import { codeOf, storeError } from './errors.ts'
import { migrations } from './migrations.ts'
import type { Sent } from './sent.ts'
import type { PostgresSettings } from './settings.ts'

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE'
/** Two processes that create one table at once: one of them is told that a name in the catalog is taken. */
const TAKEN = ['23505', '42P07', '42710', '40001', '40P01', '55P03']
const TRIES_MAX = 20

/** A step may wait for as long as other processes change what it changes. */
const WAIT = 'SET LOCAL lock_timeout = 0'

const GET_TABLE = "SELECT to_regclass('schema_version') IS NOT NULL AS found"
/** One row, which is locked while a step runs. */
const MAKE_TABLE = 'CREATE TABLE schema_version (version bigint NOT NULL, one bigint PRIMARY KEY CHECK (one = 1))'
const PUT_VERSION = 'INSERT INTO schema_version (version, one) VALUES (0, 1) ON CONFLICT DO NOTHING'
const GET_VERSION = 'SELECT version FROM schema_version FOR UPDATE'

type Deps = { settings: PostgresSettings; steps?: readonly string[] }

/**
 * Brings the schema of the database up to date. Many processes may do so at once: each step runs once.
 *
 * @throws StoreError `STORE_NEWER` if a later version of stoa was here
 */
export async function migrate(connection: Connection, { settings, steps = migrations }: Deps): Promise<void> {
  const send = async (...texts: string[]) => rowsOf(await connection.send(texts.map(plain)), settings)
  const [found] = await send(GET_TABLE)
  if (found!.found !== 1) await makeTable(connection, settings)
  for (;;) {
    const [version] = await send(BEGIN, WAIT, GET_VERSION)
    const number = Number(version!.version)
    if (number > steps.length) {
      await send('ROLLBACK')
      const what = `${settings.name} was written by a later version of stoa (schema ${number}, this one knows ${steps.length})`
      throw new StoreError('STORE_NEWER', `${what}; upgrade stoa`)
    }
    if (number === steps.length) return void (await send('ROLLBACK'))
    await send(...statementsOf(steps[number]!), `UPDATE schema_version SET version = ${number + 1}`, 'COMMIT')
  }
}

async function makeTable(connection: Connection, settings: PostgresSettings): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    // One transaction, since no other is begun.
    const outcome = await connection.send([MAKE_TABLE, PUT_VERSION].map(plain))
    if (outcome.kind === 'done') return
    // Somebody else has made it, row included.
    if (codeOf(outcome.error) === '42P07') return
    const isTaken = outcome.kind === 'refused' && TAKEN.includes(codeOf(outcome.error) ?? '')
    if (!isTaken || tries >= TRIES_MAX) throw storeError(outcome.error, settings)
  }
}

/** The first row of the answer. */
function rowsOf(outcome: Outcome, settings: PostgresSettings): Record<string, unknown>[] {
  if (outcome.kind !== 'done') throw storeError(outcome.error, settings)
  return outcome.answers.flatMap(({ rows }) => rows) as Record<string, unknown>[]
}

function plain(text: string): Sent {
  return { text, values: [], types: [], wants: 'rows' }
}

/** The statements of a step. None of them holds a semicolon. */
function statementsOf(step: string): string[] {
  const uncommented = step.replace(/--.*$/gm, '')
  return uncommented.split(';').flatMap((text) => (text.trim() === '' ? [] : [text.trim()]))
}
