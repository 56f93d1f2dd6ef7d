import * as z from 'zod'
import { entry, putEntry } from './entries.ts'
import type { LedgerDatabase } from './ledger-database.ts'

const KEY = 'last_wallet'
const Noted = z.object({ wallet: z.string().max(100), before: z.string().max(100).optional() })

/** The wallet that a node used before the present one. `isNew`: this start is the first with the present one. */
export type WalletBefore = { wallet: string; isNew: boolean }

/**
 * Notes the wallet of a start in a ledger that one node keeps alone, which takes every wallet.
 *
 * @returns the wallet before it, until the node starts with that one again. Undefined: it never had another
 */
export async function noteWallet(database: LedgerDatabase, wallet: string): Promise<WalletBefore | undefined> {
  const text = await database.query(entry(KEY))
  const noted = text === undefined ? undefined : Noted.safeParse(JSON.parse(text)).data
  const isSame = (other: string | undefined) => other?.toLowerCase() === wallet.toLowerCase()
  const isNew = noted !== undefined && !isSame(noted.wallet)
  const last = isNew ? noted.wallet : noted?.before
  // Back at the wallet that it had before, the node misses none.
  const before = isNew && isSame(noted.before) ? undefined : last
  if (noted === undefined || isNew) await database.commit(putEntry(KEY, JSON.stringify({ wallet, before })))
  return before === undefined ? undefined : { wallet: before, isNew }
}
