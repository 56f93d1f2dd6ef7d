import type { DatabaseError } from 'pg'
import { reasonOf } from '../../lib/errors.ts'
import { StoreError } from '../store-error.ts'
import type { PostgresSettings } from './settings.ts'

type PostgresErrorDeps = Pick<PostgresSettings, 'name'>

/** What the server says of a statement, or Node.js of a connection. Undefined: neither. */
export function codeOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

/** True if the same transaction may well succeed when it is run again: it met another one. */
export function isConflict(error: unknown): boolean {
  return isBlocked(error) || ['40001', '40P01'].includes(codeOf(error) ?? '')
}

/** True if it waited too long for a row or a lock that another transaction has. */
export function isBlocked(error: unknown): boolean {
  return codeOf(error) === '55P03'
}

/**
 * True if what the server has prepared for this connection is not what was prepared there: somebody dropped it or a
 * pooler handed out another connection, or a table has changed.
 */
export function isStalePlan(error: unknown): boolean {
  const code = codeOf(error)
  return code === '26000' || code === '42P05' || (code === '0A000' && /cached plan/.test(reasonOf(error)))
}

/** Codes of OpenSSL are words; those of Node.js begin with ERR_TLS. */
function isOfTls(error: unknown): boolean {
  const code = codeOf(error) ?? ''
  return /CERT|SSL|TLS|SELF_SIGNED/.test(code) || /SSL connection/.test(reasonOf(error))
}

type Advice = { code: StoreError['code']; what: string; fix: string }

const WRITE_FAILED = 'STORE_WRITE_FAILED'
const UNREADABLE = 'STORE_UNREADABLE'
const AWAY = 'STORE_AWAY'
const REFUSED = 'STORE_REFUSED'

/**
 * Why a user is not let in (SQLSTATE 28000), by the words of the server. It says in which way the connection came, not which
 * line of pg_hba.conf is missing.
 */
const ADMISSION: readonly [words: RegExp, what: string, fix: string][] = [
  [
    /pg_hba\.conf.*(no encryption|SSL off)/,
    'does not let this user in from here without TLS',
    'add sslmode=verify-full to DATABASE_URL if its pg_hba.conf has a hostssl line for this user and address; if it has none, add one, or a host line',
  ],
  [
    /pg_hba\.conf/,
    'does not let this user in from here',
    'add a line for this user, database and address to its pg_hba.conf, and reload it',
  ],
  [
    /role .* does not exist/,
    'does not know this user',
    'CREATE ROLE … LOGIN PASSWORD …, or correct the user in DATABASE_URL',
  ],
  [/not permitted to log in/, 'does not let this user log in', 'ALTER ROLE … LOGIN'],
  [
    /./,
    'does not let this user in',
    'correct user and password in DATABASE_URL, or how its pg_hba.conf wants to know this user',
  ],
]

/** A right to create tables changes nothing here, and an upgrade changes tables, which only their owner may. */
const OTHERS_TABLES: Advice = {
  code: UNREADABLE,
  what: 'has tables of stoa that belong to another role',
  fix: 'name that role in DATABASE_URL, or give the tables to this one: as that role or a superuser, REASSIGN OWNED BY … TO …',
}

/** By SQLSTATE, whole or its class. */
const ADVICE: Record<string, Advice> = {
  '28P01': { code: UNREADABLE, what: 'refuses the password', fix: 'correct it in DATABASE_URL' },
  '3D000': { code: UNREADABLE, what: 'is not there', fix: 'create it: CREATE DATABASE …' },
  '42501': { code: UNREADABLE, what: 'lets this user not do that', fix: 'GRANT CREATE, USAGE ON SCHEMA public TO …' },
  '3F000': { code: UNREADABLE, what: 'has no schema to keep tables in', fix: 'create one: CREATE SCHEMA …' },
  '42P07': {
    code: UNREADABLE,
    what: "has tables of the same names that are not stoa's",
    fix: 'give stoa a database of its own',
  },
  '42P01': { code: UNREADABLE, what: 'lacks a table of stoa', fix: 'restore the backup' },
  '42703': { code: UNREADABLE, what: 'lacks a column of stoa', fix: 'restore the backup' },
  '25006': { code: UNREADABLE, what: 'is a replica and takes no changes', fix: 'name the primary in DATABASE_URL' },
  '53100': { code: WRITE_FAILED, what: 'has a full disk', fix: 'free some space on the machine of the database' },
  '53200': { code: WRITE_FAILED, what: 'is out of memory', fix: 'give the machine of the database more' },
  '53300': { code: AWAY, what: 'has too many connections', fix: 'raise max_connections, or end other programs' },
  '57P': { code: AWAY, what: 'is starting or stopping', fix: 'wait, or look at its log' },
  '08': { code: AWAY, what: 'has lost the connection', fix: 'look at its log and at the network' },
  '58030': { code: WRITE_FAILED, what: 'cannot read or write its disk', fix: 'look at its log' },
  XX: { code: WRITE_FAILED, what: 'has failed', fix: 'look at its log' },
  // A number out of range, for example, or a byte that no text holds. The database itself is well.
  '22': { code: REFUSED, what: 'does not take a value of this request', fix: 'change it, and report it' },
  '23': { code: REFUSED, what: 'refuses a change that breaks a rule of the ledger', fix: 'report it' },
  '54': { code: REFUSED, what: 'does not take so much at once', fix: 'send less, and report it' },
  '40': { code: WRITE_FAILED, what: 'was too busy with other changes', fix: 'ask again' },
  '55P03': {
    code: AWAY,
    what: 'keeps a change waiting for what another transaction has locked',
    fix: 'ask again; if it lasts, look for old transactions in pg_stat_activity',
  },
  '57014': { code: WRITE_FAILED, what: 'has cancelled a statement', fix: 'raise its statement_timeout' },
  ECONNREFUSED: { code: AWAY, what: 'does not answer', fix: 'start it, or correct DATABASE_URL' },
  ENOENT: { code: AWAY, what: 'has no socket there', fix: 'start it, or correct DATABASE_URL' },
  ENOTFOUND: { code: AWAY, what: 'has a host name that nobody knows', fix: 'correct DATABASE_URL' },
}

/**
 * The error for people. Errors of this node, such as those of a change, stay as they are.
 *
 * The words of the server stand in it, since an operator finds them in its log. They hold no password: the server is
 * told one in clear text only over TLS or on this machine, and does not repeat it.
 */
export function storeError(error: unknown, { name }: PostgresErrorDeps): unknown {
  if (error instanceof StoreError) return error
  const code = codeOf(error)
  if (code !== undefined && !isOfServer(error) && !isOfSystem(error) && !isOfTls(error)) return error
  const { code: storeCode, what, fix } = adviceOf(error)
  return new StoreError(storeCode, `${name} ${what}: ${fix} (${reasonOf(error) || code})`, { cause: error })
}

/** What a connection that ends without a reason is for people. */
export function away(error: unknown, deps: PostgresErrorDeps): StoreError {
  const translated = storeError(error, deps)
  if (translated instanceof StoreError) return translated
  const text = `${deps.name} cannot be reached: look at it and at the network (${reasonOf(error)})`
  return new StoreError(AWAY, text, { cause: error })
}

function adviceOf(error: unknown): Advice {
  const code = codeOf(error) ?? ''
  if (isOfTls(error)) {
    const fix = 'name the certificate of its authority: sslrootcert=/path in DATABASE_URL'
    const isUntrusted = /SELF_SIGNED|UNABLE_TO|CERT/.test(code)
    if (isUntrusted) return { code: UNREADABLE, what: 'shows a certificate that is not trusted', fix }
    return { code: UNREADABLE, what: 'does not speak TLS', fix: 'set it up there, or say sslmode=disable' }
  }
  // `pg` itself refuses to go on without a password.
  if (code === '' && reasonOf(error).startsWith('SASL')) return ADVICE['28P01']!
  if (code === '28000') {
    const [, what, fix] = ADMISSION.find(([words]) => words.test(reasonOf(error))) ?? ADMISSION.at(-1)!
    return { code: UNREADABLE, what, fix }
  }
  if (code === '42501' && /permission denied for (?!schema)|must be owner/.test(reasonOf(error))) return OTHERS_TABLES
  const known = ADVICE[code] ?? ADVICE[code.slice(0, 3)] ?? ADVICE[code.slice(0, 2)]
  if (known !== undefined) return known
  if (isOfServer(error)) return { code: WRITE_FAILED, what: 'refuses a statement', fix: 'report it' }
  return { code: AWAY, what: 'cannot be reached', fix: 'look at it and at the network' }
}

function isOfServer(error: unknown): boolean {
  return (error as Partial<DatabaseError> | null)?.severity !== undefined
}

function isOfSystem(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.syscall !== undefined
}
