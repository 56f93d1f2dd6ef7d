import * as z from 'zod'
import { bareHost } from '../lib/bare-host.ts'
import { nearest } from './config-error.ts'

/** How TLS is used (store/postgres/settings.ts). `prefer` and `allow` are missing: they go on in the clear without a word. */
const sslModes = ['disable', 'require', 'verify-ca', 'verify-full', 'no-verify'] as const

/** What stoa reads (store/postgres/settings.ts). */
const usedParameters = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'host', 'port', 'user', 'password', 'options']
/** What PostgreSQL's own programs read too. A mistyped `sslmode` must not pass for one: it would be no TLS at all. */
const parameters = [
  ...usedParameters,
  ...[
    'application_name',
    'channel_binding',
    'client_encoding',
    'connect_timeout',
    'dbname',
    'fallback_application_name',
  ],
  ...['gssencmode', 'gsslib', 'hostaddr', 'keepalives', 'keepalives_count', 'keepalives_idle', 'keepalives_interval'],
  ...['krbsrvname', 'load_balance_hosts', 'passfile', 'replication', 'require_auth', 'requirepeer', 'service'],
  ...['ssl_max_protocol_version', 'ssl_min_protocol_version', 'sslcertmode', 'sslcompression', 'sslcrl', 'sslcrldir'],
  ...['sslnegotiation', 'sslpassword', 'sslsni', 'target_session_attrs', 'tcp_user_timeout'],
]

const LENGTH_MAX = 2048
const EXAMPLE = 'such as postgres://stoa:password@db.example:5432/stoa?sslmode=verify-full'
const RESERVED =
  'a URL whose password has its reserved characters percent-encoded: / as %2F, ? as %3F, # as %23, @ as %40, % as %25'

/** Where a ledger in PostgreSQL is. Holds nothing secret. */
type DatabaseAddress = {
  /** A host name, an IP address, or the directory of a socket. */
  host: string
  port: number
  database: string
}

/** The URL of a PostgreSQL database. A refusal never holds a part of it: a password may stand anywhere. */
export const DatabaseUrlText = z.string().transform((text, context): string => {
  const url = text.trim()
  const refusal = refusalOf(url)
  if (refusal === undefined) return url
  context.addIssue({ code: 'custom', message: refusal })
  return z.NEVER
})

/** What may be shown of a URL that `DatabaseUrlText` has accepted. */
export function databaseAddress(text: string): DatabaseAddress {
  const url = new URL(text)
  const host = url.searchParams.get('host') ?? bareHost(decodeURIComponent(url.hostname))
  const port = url.searchParams.get('port') ?? (url.port || '5432')
  return { host, port: Number(port), database: decodeURIComponent(url.pathname.slice(1)) }
}

/** The parts of the URL that must never be shown: all of it, and its password as it is sent and as it is written. */
export function databaseSecrets(text: string): string[] {
  const url = URL.parse(text.trim())
  const passwords =
    url === null ? [] : [url.password, decoded(url.password) ?? '', url.searchParams.get('password') ?? '']
  return [text.trim(), ...passwords].filter((part) => part !== '')
}

function refusalOf(text: string): string | undefined {
  const refusal = firstRefusal(text)
  // The address ends at the first of these. So the rest of the password counts as port, path or query.
  if (refusal === undefined || !/^[a-z]+:\/\/[^@]*[/?#][^@]*@/i.test(text)) return refusal
  return `${RESERVED}, ${EXAMPLE}`
}

function firstRefusal(text: string): string | undefined {
  const url = text.length > LENGTH_MAX || /[\s\0]/.test(text) ? null : URL.parse(text)
  if (url === null || !/^postgres(ql)?:\/\//i.test(text)) return `the URL of a PostgreSQL database, ${EXAMPLE}`
  if ([url.username, url.password, url.hostname, url.pathname].some((part) => decoded(part) === undefined)) {
    return 'a URL in which each % begins an escape such as %40 for @: escape a % of the password as %25'
  }
  const { host, port, database } = databaseAddress(text)
  if (host === '' || host.includes(',')) return `one host in the URL, ${EXAMPLE}`
  if (url.username === '' && !url.searchParams.get('user')) return `a user in the URL, ${EXAMPLE}`
  if (!/^[^/]+$/.test(database)) return `the name of one database after the host, ${EXAMPLE}`
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return 'a port from 1 to 65535 in the URL'
  const unknown = [...url.searchParams.keys()].find((name) => !parameters.includes(name))
  // The name itself may be a part of a password.
  if (unknown !== undefined) return `only known parameters after ?: ${meant(unknown)}`
  const modes = url.searchParams.getAll('sslmode')
  if (modes.length > 1 || modes.some((mode) => !sslModes.some((one) => one === mode))) {
    return `one sslmode in the URL: ${sslModes.join(', ')}`
  }
  return undefined
}

function meant(unknown: string): string {
  const near = nearest(unknown, parameters)
  const known = `${usedParameters.join(', ')}; what else PostgreSQL has is ignored`
  return near === undefined ? known : `one is nearly ${near}. Known are ${known}`
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}
