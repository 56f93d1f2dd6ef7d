import { randomUUID } from 'node:crypto'
import type { Database } from '../../src/store/database.ts'
import { joinAlone } from '../../src/store/ownership.ts'

/**
 * The process that had the ledger has ended: what it did is left behind. The next one uses the same file, under an id of
 * its own, as a node does that starts again.
 */
export function endProcess(database: Database): Database {
  const process = randomUUID()
  for (const statement of joinAlone(process).split(';')) database.run(statement)
  return { ...database, process }
}
