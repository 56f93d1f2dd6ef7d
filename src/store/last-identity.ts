import { entry, putEntry } from './entries.ts'
import type { LedgerDatabase } from './ledger-database.ts'

const KEY = 'last_identity'

/**
 * Notes the peer id of a start in a ledger that one node keeps alone, which takes every identity.
 *
 * @returns the peer id before it, if this start is the first with another one
 */
export async function noteIdentity(database: LedgerDatabase, peerId: string): Promise<string | undefined> {
  const before = await database.query(entry(KEY))
  if (before === peerId) return undefined
  await database.commit(putEntry(KEY, peerId))
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
