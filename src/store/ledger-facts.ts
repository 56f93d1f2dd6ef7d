import type { UnixMs } from '../lib/clock.ts'
import { parseJson } from '../lib/json.ts'
import { UNFINISHED_KEY } from './copy/unfinished.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { COPIED_KEY, MET_KEY, metAt } from './ledger-home.ts'
import { ID_KEY } from './ledger-id.ts'
import { LedgerOwner, OWNER_KEY } from './ledger-owner.ts'
import { all } from './query.ts'

/** What a ledger says of itself. Whether a node may use it is judged by this (store/ledger-checks.ts). */
export type LedgerFacts = {
  id: string | undefined
  /** Undefined: no node has used it yet. */
  owner: LedgerOwner | undefined
  /** When its node met another node with the same identity. */
  met: UnixMs | undefined
  copiedTo: string | undefined
  /** Another ledger was being copied into it. */
  isUnfinished: boolean
}

const KEYS = [ID_KEY, OWNER_KEY, MET_KEY, COPIED_KEY, UNFINISHED_KEY]
/** The entries that `factsOf` reads. */
export const FACTS = `SELECT key, value FROM kv WHERE key IN (${KEYS.map((key) => `'${key}'`).join(', ')})`

export type EntryRow = { key: string; value: string }

export function factsOf(rows: readonly EntryRow[]): LedgerFacts {
  const entries = new Map(rows.map(({ key, value }) => [key, value]))
  return {
    id: entries.get(ID_KEY),
    owner: LedgerOwner.safeParse(parseJson(entries.get(OWNER_KEY) ?? '')).data,
    met: metAt(entries.get(MET_KEY)),
    copiedTo: entries.get(COPIED_KEY),
    isUnfinished: entries.has(UNFINISHED_KEY),
  }
}

export async function readFacts(database: Pick<LedgerDatabase, 'query'>): Promise<LedgerFacts> {
  return factsOf(await database.query(all<EntryRow>(FACTS)))
}
