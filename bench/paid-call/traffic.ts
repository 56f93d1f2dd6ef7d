import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { secp256k1 } from '../../src/payments/secp256k1.ts'

/** What a process asked its ledger and the curve for, so far. */
export type Traffic = {
  statements: number
  /** Batches of statements that are sent together. None on SQLite. */
  roundTrips: number
  /** Transactions that write. Each is a flush. */
  groups: number
  /** To and from the server. */
  bytes: number
  /** Signatures made. */
  signed: number
  /** Signatures checked. */
  recovered: number
}

/** The question for it. */
export const TRAFFIC = 'traffic'

/** The connection of `pg`, which sends what the node writes (src/store/postgres/batch.ts). */
type Wire = {
  stream: { bytesRead: number; bytesWritten: number }
  connect(...args: unknown[]): void
  parse(message: { name: string; text: string }): void
  bind(message: { statement: string }): void
  sync(): void
}

/**
 * Counts what the ledger and the curve of this process are asked for. Call it before the node opens its ledger.
 *
 * This is not a setting of the node, because only this bench counts.
 */
export function countTraffic(): () => Traffic {
  const counted = { statements: 0, roundTrips: 0, groups: 0 }
  countSqlite(counted)
  const wires = countPostgres(counted)
  const curve = countCurve()
  return () => {
    const bytes = [...wires].reduce((sum, { stream }) => sum + stream.bytesRead + stream.bytesWritten, 0)
    return { ...counted, bytes, ...curve }
  }
}

function countCurve(): Pick<Traffic, 'signed' | 'recovered'> {
  const counted = { signed: 0, recovered: 0 }
  const { sign, recover } = secp256k1
  Object.assign(secp256k1, {
    sign(...args: Parameters<typeof sign>) {
      counted.signed += 1
      return sign.apply(secp256k1, args)
    },
    recover(...args: Parameters<typeof recover>) {
      counted.recovered += 1
      return recover.apply(secp256k1, args)
    },
  })
  return counted
}

type LedgerTraffic = Pick<Traffic, 'statements' | 'roundTrips' | 'groups'>

function countSqlite(counted: LedgerTraffic): void {
  const { prepare } = DatabaseSync.prototype
  DatabaseSync.prototype.prepare = function (sql, ...options) {
    const statement = prepare.call(this, sql, ...options)
    for (const name of ['run', 'get', 'all'] as const) {
      const call = statement[name].bind(statement) as (...args: unknown[]) => unknown
      const value = (...args: unknown[]) => {
        counted.statements += 1
        if (sql === 'COMMIT') counted.groups += 1
        return call(...args)
      }
      Object.defineProperty(statement, name, { value, configurable: true })
    }
    return statement
  }
}

function countPostgres(counted: LedgerTraffic): ReadonlySet<Wire> {
  const wires = new Set<Wire>()
  /** By connection, the name of the statement with which a group begins. */
  const begins = new Map<Wire, string>()
  const wire = (pg as unknown as { Connection: { prototype: Wire } }).Connection.prototype
  const { connect, parse, bind, sync } = wire
  wire.connect = function (this: Wire, ...args) {
    wires.add(this)
    connect.apply(this, args)
  }
  wire.parse = function (this: Wire, message) {
    if (message.text.startsWith('BEGIN') && message.text.endsWith('READ WRITE')) begins.set(this, message.name)
    parse.call(this, message)
  }
  wire.bind = function (this: Wire, message) {
    counted.statements += 1
    if (begins.get(this) === message.statement) counted.groups += 1
    bind.call(this, message)
  }
  wire.sync = function (this: Wire) {
    counted.roundTrips += 1
    sync.call(this)
  }
  return wires
}
