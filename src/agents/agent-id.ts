import { createHash } from 'node:crypto'
import { base32 } from 'multiformats/bases/base32'

/** 160 bits: far beyond any chance of two agents of the market meeting. */
const AGENT_ID_LENGTH = 32

/**
 * The identifier of a seller's agent (D5): the same after a restart, and safe in a path.
 *
 * @param sellerId the seller's libp2p peer id in base58.
 * @param name the agent's name. Its Unicode form does not matter: both spellings of `é` are one name.
 * @returns 32 characters of lower-case base32.
 */
export function agentId(sellerId: string, name: string): string {
  const digest = createHash('sha256')
    .update(`${sellerId}\n${name.normalize('NFC')}`, 'utf8')
    .digest()
  return base32.baseEncode(digest).slice(0, AGENT_ID_LENGTH)
}
