import * as z from 'zod'
import { dataFile } from './data-dir.ts'
import { readSecretFile, writeSecretFile } from './secret-file.ts'

/** A mark in the data directory: which ledger belongs there. So a missing or another ledger is noticed. */
const LedgerMark = z.object({
  /** The id of the ledger. */
  ledger: z.string().max(100),
  /** Whether it was closed cleanly. */
  closed: z.boolean(),
  /** How often it was opened and closed (ledger-turn.ts). Absent: by a version that did not count. */
  turn: z.number().optional(),
  /** The PostgreSQL database that held it last, as host:port/name. Absent: the file in this directory. */
  server: z.string().max(1024).optional(),
})
export type LedgerMark = z.infer<typeof LedgerMark>

/** Tables with what a new or older ledger would not know. */
export const BOOKS = ['payments', 'orders', 'exchanges', 'authorizations', 'chain_transactions']

/** A damaged or unreadable mark counts as none: the file holds nothing else. */
export async function readMark(dataDir: string): Promise<LedgerMark | undefined> {
  try {
    const text = await readSecretFile(dataFile(dataDir, 'ledger'))
    return text === undefined ? undefined : LedgerMark.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

export async function writeMark(dataDir: string, mark: LedgerMark): Promise<void> {
  await writeSecretFile(dataFile(dataDir, 'ledger'), `${JSON.stringify(mark)}\n`, { replace: true })
}
