import * as z from 'zod'
import { CodedError } from '../lib/errors.ts'
import { addEntry, entry, putEntry } from './entries.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import { forgetOthers } from './ledger-home.ts'
import { together } from './query.ts'

/** Whose ledger a database holds. Stored in the ledger, so that no node with other keys goes on with it. */
export const LedgerOwner = z.object({
  /** The peer id of the node. */
  seller: z.string().max(200),
  wallet: z.string().max(100),
  network: z.string().max(100),
})
export type LedgerOwner = z.infer<typeof LedgerOwner>

/** An owner whose keys may be missing: a node makes them at its first start. */
export type KnownOwner = { [Key in keyof LedgerOwner]: LedgerOwner[Key] | undefined } & Pick<LedgerOwner, 'network'>

export const OWNER_KEY = 'ledger_owner'

/**
 * Notes the owner of a ledger in a database server at the first start, and refuses another owner later.
 *
 * @param server the database, as it may be shown
 * @throws CodedError LEDGER_OF_ANOTHER
 */
export async function claimLedger(database: LedgerDatabase, owner: LedgerOwner, server: string): Promise<void> {
  const [, text] = await database.commit(together(addEntry(OWNER_KEY, JSON.stringify(owner)), entry(OWNER_KEY)))
  const noted = LedgerOwner.safeParse(JSON.parse(text!)).data
  checkOwner(noted, owner, server)
}

/** @throws CodedError LEDGER_OF_ANOTHER */
export function checkOwner(noted: LedgerOwner | undefined, owner: KnownOwner, server: string): void {
  const refusal = noted && refusalOf(noted, owner)
  if (refusal === undefined) return
  throw new CodedError('LEDGER_OF_ANOTHER', `the ledger in PostgreSQL at ${server} ${refusal}`)
}

/** Gives the ledger to an owner, by the operator's word that no other node uses it. */
export async function giveLedger(database: LedgerDatabase, owner: LedgerOwner): Promise<void> {
  await database.commit(together(putEntry(OWNER_KEY, JSON.stringify(owner)), forgetOthers()))
}

function refusalOf(noted: LedgerOwner, { seller, wallet, network }: KnownOwner): string | undefined {
  const adopt = 'To continue with this ledger here for good, run stoa ledger adopt'
  if (noted.seller !== seller) {
    const fix =
      'put the identity.key of that seller into the data directory, or name a database of its own in DATABASE_URL'
    const own = seller === undefined ? 'the data directory of this node has no identity.key' : `this node is ${seller}`
    return `belongs to the seller ${noted.seller}, and ${own}: ${fix}. ${adopt}`
  }
  if (noted.wallet.toLowerCase() !== wallet?.toLowerCase()) {
    const fix = 'give the node the key of that wallet (wallet.key, or ETHEREUM_PRIVATE_KEY)'
    const own = wallet === undefined ? 'this node has no wallet key' : `the wallet of this node is ${wallet}`
    return `belongs to the wallet ${noted.wallet}, and ${own}: ${fix}. ${adopt}`
  }
  if (noted.network !== network) {
    const fix = `set NODE_NETWORK=${noted.network}, or name a database of its own for each network`
    return `keeps payments on ${noted.network}, and this node pays on ${network}: ${fix}. ${adopt}`
  }
  return undefined
}
