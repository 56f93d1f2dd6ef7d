import { hostname } from 'node:os'
import pg from 'pg'
import type { LedgerDatabase } from '../../src/store/ledger-database.ts'
import { connect } from '../../src/store/postgres/connection.ts'
import { Readers } from '../../src/store/postgres/readers.ts'
import { readSettings } from '../../src/store/postgres/settings.ts'

/** A reader beside the process that holds the ledger. */
export function readServer(address: string): Pick<LedgerDatabase, 'query' | 'close'> {
  const settings = readSettings(address)
  const reach = () => connect({ settings, connectMs: 5_000, answerMs: 20_000 })
  const readers = new Readers({ settings, connect: reach, waitMs: 10_000 })
  return { query: (query) => readers.query(query), close: () => readers.close() }
}

/** Lets the lease of a process that was killed pass at once, instead of 20 s later: the next start need not wait. */
export async function endLease(address: string, pid: number): Promise<void> {
  const client = new pg.Client(address)
  await client.connect()
  await client.query('UPDATE processes SET lease_until = 0 WHERE ended_at IS NULL AND place = $1', [
    `${hostname()}, process ${pid}`,
  ])
  await client.end()
}
