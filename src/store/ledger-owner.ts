import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { forgetOthers } from './ledger-home.ts'
import { one, run, together } from './query.ts'

/** Whose ledger a database holds. Stored in the ledger, so that no node with other keys goes on with it. */
const LedgerOwner = z.object({
  /** The peer id of the node. */
  seller: z.string().max(200),
  wallet: z.string().max(100),
  network: z.string().max(100),
})
export type LedgerOwner = z.infer<typeof LedgerOwner>

const KEY = 'ledger_owner'
const GET = 'SELECT value FROM kv WHERE key = ?'
const NOTE = 'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING'
const REPLACE = 'INSERT INTO kv (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'

/**
 * Notes the owner of a ledger in a database server at the first start, and refuses another owner later.
 *
 * @param server the database, as it may be shown
 * @throws CodedError LEDGER_OF_ANOTHER
 */
export async function claimLedger(database: LedgerDatabase, owner: LedgerOwner, server: string): Promise<void> {
  const read = one<{ value: string }>(GET, KEY)
  const [, row] = await database.commit(together(run(NOTE, KEY, JSON.stringify(owner)), read))
  const noted = LedgerOwner.safeParse(JSON.parse(row!.value)).data
  if (noted === undefined) return
  const refusal = refusalOf(noted, owner)
  if (refusal === undefined) return
  throw new CodedError('LEDGER_OF_ANOTHER', `the ledger in PostgreSQL at ${server} ${refusal}`)
}

/** Gives the ledger to an owner, by the operator's word that no other node uses it. */
export async function giveLedger(database: LedgerDatabase, owner: LedgerOwner): Promise<void> {
  await database.commit(together(run(REPLACE, KEY, JSON.stringify(owner)), forgetOthers()))
}

function refusalOf(noted: LedgerOwner, { seller, wallet, network }: LedgerOwner): string | undefined {
  const adopt = 'To continue with this ledger here for good, run stoa ledger adopt'
  if (noted.seller !== seller) {
    const fix =
      'put the identity.key of that seller into the data directory, or name a database of its own in DATABASE_URL'
    return `belongs to the seller ${noted.seller}, and this node is ${seller}: ${fix}. ${adopt}`
  }
  if (noted.wallet.toLowerCase() !== wallet.toLowerCase()) {
    const fix = 'give the node the key of that wallet (wallet.key, or ETHEREUM_PRIVATE_KEY)'
    return `belongs to the wallet ${noted.wallet}, and the wallet of this node is ${wallet}: ${fix}. ${adopt}`
  }
  if (noted.network !== network) {
    const fix = `set NODE_NETWORK=${noted.network}, or name a database of its own for each network`
    return `keeps payments on ${noted.network}, and this node pays on ${network}: ${fix}. ${adopt}`
  }
  return undefined
}
