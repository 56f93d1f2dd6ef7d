import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import { bareHost } from '../../lib/bare-host.ts'
import { reasonOf } from '../../lib/errors.ts'
import { StoreError } from '../store-error.ts'

/** Where the database is and how it is reached. The password is in no text of it. */
export type PostgresSettings = {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
  readonly options: string | undefined
  readonly tls: false | ConnectionOptions
  /** The server is on this machine: there is no network on which others could answer in its place. */
  readonly isLocal: boolean
  /** Not enumerable, so that no logger writes it. */
  readonly password: string | undefined
  /** For messages: user, host, port and database. */
  readonly name: string
}

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full', 'no-verify'] as const
const PORT = 5432

/**
 * Reads the address of a database: `postgres://user:password@host:port/database?sslmode=require&sslrootcert=/path`.
 *
 * `require` verifies the certificate too: an encrypted connection to somebody else is worth nothing. A Unix socket is
 * named by `?host=/path/of/the/folder`.
 *
 * @throws StoreError `STORE_UNREADABLE`, without the address, which may hold a password
 */
export function readSettings(address: string): PostgresSettings {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !/^postgres(?:ql)?:$/.test(url.protocol)) {
    throw refused('it is not of the form postgres://user:password@host:5432/database')
  }
  const { searchParams: parameters } = url
  const host = parameters.get('host') ?? decoded(bareHost(url.hostname))
  if (host === '') throw refused('it names no host')
  const user = parameters.get('user') ?? decoded(url.username)
  if (user === '') throw refused('it names no user')
  const database = decoded(url.pathname.slice(1)) || user
  const port = Number(parameters.get('port') ?? (url.port || PORT))
  const isSocket = host.startsWith('/')
  const password = parameters.get('password') ?? decoded(url.password)
  const settings = {
    host,
    port,
    user,
    database,
    options: parameters.get('options') ?? undefined,
    tls: isSocket ? (false as const) : tlsOf(host, parameters),
    isLocal: isLocal(host),
    name: `the database "${database}" of ${user} at ${isSocket ? host : `${host}:${port}`}`,
  }
  Object.defineProperty(settings, 'password', { value: password === '' ? undefined : password })
  return settings as typeof settings & { password: string | undefined }
}

function isLocal(host: string): boolean {
  return host.startsWith('/') || host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

function tlsOf(host: string, parameters: URLSearchParams): false | ConnectionOptions {
  const mode = parameters.get('sslmode') ?? (parameters.has('sslrootcert') ? 'verify-full' : 'disable')
  if (!(SSL_MODES as readonly string[]).includes(mode)) throw refused(`sslmode is one of ${SSL_MODES.join(', ')}`)
  if (mode === 'disable') return false
  const read = (name: string) => {
    const path = parameters.get(name)
    return path === null ? undefined : readParameter(name, path)
  }
  const [ca, cert, key] = [read('sslrootcert'), read('sslcert'), read('sslkey')]
  return {
    rejectUnauthorized: mode !== 'no-verify',
    host,
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(mode === 'verify-ca' && { checkServerIdentity: () => undefined }),
  }
}

function readParameter(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw refused(`${name} names a file that cannot be read: ${reasonOf(error)}`)
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw refused('a % in it is not followed by two hexadecimal digits; a % in a password is written %25')
  }
}

function refused(why: string): StoreError {
  return new StoreError('STORE_UNREADABLE', `DATABASE_URL cannot be used: ${why}`)
}
