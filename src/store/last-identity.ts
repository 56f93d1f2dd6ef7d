import type { LedgerDatabase } from './ledger-database.ts'
import { one, run } from './query.ts'

const KEY = 'last_identity'
const GET = 'SELECT value FROM kv WHERE key = ?'
const PUT = 'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'

/**
 * Notes the peer id of a start in a ledger that one node keeps alone, which takes every identity.
 *
 * @returns the peer id before it, if this start is the first with another one
 */
export async function noteIdentity(database: LedgerDatabase, peerId: string): Promise<string | undefined> {
  const before = (await database.query(one<{ value: string }>(GET, KEY)))?.value
  if (before === peerId) return undefined
  await database.commit(run(PUT, KEY, peerId))
  return before
}

/** For the log. */
export function otherIdentityText(before: string, peerId: string): string {
  return (
    `the ledger was last used by ${before}, and this node is ${peerId} now. Its agents have new ids, and neither can its buyers fetch what ` +
    `they have paid for, nor can it fetch what it has bought. If you did not mean to change the identity, stop the node, put the identity.key ` +
    `of ${before} back, and start the node`
  )
}
