import type { LedgerDatabase } from './ledger-database.ts'
import { one } from './query.ts'

/** The versions of listings that the processes of one seller sign, if they share a ledger. */
export type ListingVersions = {
  /** Takes a version for a listing, at least this one. No other process takes the same or an earlier one after that. */
  take(agentId: string, version: number): Promise<number>
  /** True if a process on this ledger has taken this version or a later one, so a copy of the ledger need not be met. */
  isTaken(agentId: string, version: number): Promise<boolean>
}

const TAKE = `
  INSERT INTO listing_versions (agent_id, version) VALUES (?, ?)
  ON CONFLICT (agent_id) DO UPDATE SET version =
    CASE WHEN listing_versions.version >= excluded.version THEN listing_versions.version + 1 ELSE excluded.version END
  RETURNING version`
const LAST = 'SELECT version FROM listing_versions WHERE agent_id = ?'

type VersionRow = { version: number }

export function createListingVersions(database: LedgerDatabase): ListingVersions {
  return {
    async take(agentId, version) {
      return (await database.commit(one<VersionRow>(TAKE, agentId, version)))!.version
    },
    async isTaken(agentId, version) {
      const last = await database.query(one<VersionRow>(LAST, agentId))
      return last !== undefined && version <= last.version
    },
  }
}
